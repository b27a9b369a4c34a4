"""The dataset over a published folder of token shards."""

from pathlib import Path

import numpy as np
import torch

from pipeline_lib import digest
from pipeline_lib.corpus.published import open_shards
from pipeline_lib.training.token_dataset import Indices, TokenDataset
from pipeline_lib.training.windows import ShardWindows


class ShardedTokenDataset(TokenDataset):
    """Windows over a published shard folder; a sample is ``(x, y)``, both int64 ``[seq_len]``.

    ``y`` are the tokens one position after ``x``. There are ``(tokens - 1) // seq_len`` windows,
    also across shards; ``unused_tokens`` remain. ``split``: ``"train"`` or ``"val"``.

    ``documents`` and ``positions`` each add a tensor like ``x`` after ``y``, so that attention can
    stay inside documents: the number of each token's document, and its position in the document.
    Both start at 0 in each window. An end token is the last token of its document.

    Digest of the manifest, file names, sizes and headers are always checked; ``verify="full"`` also
    hashes every shard. ``ValueError`` for a wrong argument, ``SourceError`` without a manifest,
    ``DamagedFile`` for a file that does not match the manifest.
    """

    def __init__(
        self,
        folder: Path | str,
        split: str,
        seq_len: int,
        *,
        verify: str = "sizes",
        documents: bool = False,
        positions: bool = False,
    ) -> None:
        if not isinstance(seq_len, int) or seq_len < 1:
            raise ValueError(f"seq_len is {seq_len!r}; expected a whole number of tokens above 0")
        if verify not in ("sizes", "full"):
            raise ValueError(f"verify is {verify!r}; expected 'sizes' or 'full'")
        self.metadata, shards = open_shards(Path(folder), split, full=verify == "full")
        self._windows = ShardWindows(shards, seq_len)
        self._documents, self._positions = documents, positions
        self.fingerprint = digest.of_json([self.metadata["content_sha256"], split, seq_len])

    @property
    def unused_tokens(self) -> int:
        """Tokens after the last window."""
        return self._windows.unused

    def __len__(self) -> int:
        return len(self._windows)

    def _gather(self, rows: Indices) -> tuple[torch.Tensor, ...]:
        tokens = self._windows.gather(rows)
        sides = (tokens[:, :-1], tokens[:, 1:])  # cast apart: contiguous, without shared memory
        x, y = (torch.from_numpy(side.astype(np.int64)) for side in sides)
        return (x, y, *self._extra(x)) if self._documents or self._positions else (x, y)

    def _extra(self, x: torch.Tensor) -> list[torch.Tensor]:
        starts = torch.zeros_like(x, dtype=torch.bool)
        starts[:, 1:] = x[:, :-1] == self.metadata["tokenizer"]["eos_id"]
        extra = []
        if self._documents:
            extra.append(starts.long().cumsum(1))
        if self._positions:
            places = torch.arange(x.shape[1]).expand_as(x)
            extra.append(places - places.where(starts, 0).cummax(1).values)
        return extra
