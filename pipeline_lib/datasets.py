"""What training sees: four map-style datasets over mapped files, and a loader for them.

A batch is one gather. ``__getitems__`` gives a ``Batch``, which acts as a list of samples for any
collate function; ``loader`` passes its tensors on as they are. Nothing is held in memory, and
what travels to a worker process are paths.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from pipeline_lib import digest
from pipeline_lib.cache import Cache
from pipeline_lib.caches.cachesite import CacheSite
from pipeline_lib.caches.chatcaches import counts_table, dpo_cache, pretrain_cache, sft_cache
from pipeline_lib.caches.tokenrows import OverLength
from pipeline_lib.chats.mixture import Mixture
from pipeline_lib.chats.turnstore import Conversations
from pipeline_lib.reading.published import open_shards
from pipeline_lib.reading.sampling import BatchOrder
from pipeline_lib.reading.windows import Batch, MappedFile, ShardWindows
from pipeline_lib.table import Table

if TYPE_CHECKING:
    from pipeline_lib.tokenizer import Tokenizer

__all__ = ["DPODataset", "PretrainDataset", "SFTDataset", "ShardedTokenDataset", "loader"]

Tensors = dict[str, torch.Tensor] | tuple[torch.Tensor, ...]
Rows = NDArray[np.int64]
IGNORED = -100
"""Label of a position without loss."""


class TokenDataset(Dataset[Any], ABC):
    """Map-style samples that are gathered from mapped files, one or many at a time."""

    EMPTY = ": there is nothing that fits; look at the counts and choose another length"
    fingerprint: str
    """Digest of what the dataset holds; a saved position in it belongs to this."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _gather(self, rows: Rows) -> Tensors:
        """The samples at some rows, all of them valid."""

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([operator.index(index)])[0]

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Several samples at once; negative indices count from the end."""
        rows, size = np.array(indices, dtype=np.int64), len(self)
        low, high = (min(indices), max(indices)) if len(rows) else (0, -1)
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise IndexError(f"sample {wrong} of {size:,}" + (self.EMPTY if not size else ""))
        if low < 0:
            rows[rows < 0] += size
        return Batch(self._gather(rows))


class ShardedTokenDataset(TokenDataset):
    """Windows over a published shard folder: ``(x, y)``, int64 ``[seq_len]``, ``y`` one further.

    There are ``(tokens - 1) // seq_len`` windows, also across shards; ``unused_tokens`` remain.
    ``documents`` and ``positions`` each add a tensor like ``x`` behind ``y``: the number of the
    token's document and its place in it, both counted from 0 at the start of the window, so that
    attention can be kept inside documents. An end token is the last of its document.
    The manifest's digest, names, sizes and headers are checked; ``verify="full"`` hashes.
    ``SourceError`` without a manifest, ``DamagedFile`` for what does not match it.
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
        """Tokens behind the last window."""
        return self._windows.unused

    def __len__(self) -> int:
        return len(self._windows)

    def _gather(self, rows: Rows) -> tuple[torch.Tensor, ...]:
        tokens = self._windows.gather(rows)
        sides = (tokens[:, :-1], tokens[:, 1:])  # cast apart: contiguous, and neither shares bytes
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


class CachedDataset(TokenDataset):
    """A dataset over a cache, which knows why that was used or built and what it holds."""

    cache: Cache
    max_len: int

    def _map(self, cache: Cache, max_len: int) -> None:
        self.cache, self.max_len = cache, max_len
        self.fingerprint = digest.of_json([cache.fingerprint, max_len])

    def _mapped(self, name: str, dtype: str, *row_shape: int) -> MappedFile:
        row_bytes = int(np.prod(row_shape)) * np.dtype(dtype).itemsize
        rows = self.cache.size(name) // row_bytes
        return MappedFile(self.cache.path(name), dtype, (rows, *row_shape))

    def explain(self) -> str:
        """Why the cache was used as it was, continued, or built."""
        return self.cache.explanation

    @property
    def table(self) -> Table:
        """What the cache holds and what was left out, for each source."""
        return counts_table(self.cache)


class PretrainDataset(CachedDataset):
    """Windows of ``max_len`` over the token stream of a mixture: ``input_ids``, ``labels``.

    Both are int64 and equal: models of transformers shift by themselves. Windows do not
    overlap; ``unused_tokens`` behind the last one are not served.
    """

    def __init__(
        self,
        mixture: Mixture,
        tokenizer: "Tokenizer",
        site: CacheSite,
        *,
        max_len: int,
        limit: int = -1,
    ) -> None:
        if max_len < 1:
            raise ValueError(f"max_len is {max_len}; expected a number of tokens above 0")
        self._map(pretrain_cache(site, mixture, tokenizer, limit=limit), max_len)
        self._stream = self._mapped("pretrain_tokens.bin", "<i4", max_len)

    @property
    def unused_tokens(self) -> int:
        """Tokens behind the last window."""
        return self.cache.size("pretrain_tokens.bin") // 4 - len(self) * self.max_len

    def __len__(self) -> int:
        return self._stream.shape[0]

    def _gather(self, rows: Rows) -> dict[str, torch.Tensor]:
        ids = _int64(self._stream, rows)
        return {"input_ids": ids, "labels": ids.clone()}


class RowDataset(CachedDataset):
    """Rows of ``max_len`` from a cache of ids, loss masks and lengths.

    ``over_length`` says what becomes of a conversation over ``max_len`` tokens: ``drop``,
    ``truncate_turns`` (oldest first) or ``truncate_right``; ``limit`` takes a seeded sample of
    the conversations, -1 all of them.
    """

    _kind: ClassVar[str]
    _cache: ClassVar[Callable[..., Cache]]
    _sides: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        conversations: Conversations,
        tokenizer: "Tokenizer",
        site: CacheSite,
        *,
        max_len: int,
        over_length: OverLength = "drop",
        limit: int = -1,
    ) -> None:
        rules = {"max_len": max_len, "over_length": over_length, "limit": limit}
        self._map(type(self)._cache(site, conversations, tokenizer, **rules), max_len)
        self._ids = self._mapped(f"{self._kind}_ids.bin", "<i4", *self._sides, max_len)
        self._mask = self._mapped(f"{self._kind}_mask.bin", "<i1", *self._sides, max_len)
        self._lengths = self._mapped(f"{self._kind}_len.bin", "<i4", *self._sides)

    def __len__(self) -> int:
        return self._ids.shape[0]

    def lengths(self, rows: Rows) -> NDArray[np.int32]:
        """Tokens without padding, of some rows; of a pair ``[chosen, rejected]``."""
        return np.asarray(self._lengths.array[rows], dtype=np.int32)


class SFTDataset(RowDataset):
    """Conversations: ``input_ids``, ``labels``, ``attention_mask``, ``loss_mask``, int64.

    Loss falls on assistant contents and their end marks; ``labels`` are -100 elsewhere and not
    shifted.
    """

    _kind, _cache = "sft", staticmethod(sft_cache)

    def _gather(self, rows: Rows) -> dict[str, torch.Tensor]:
        ids, loss = _int64(self._ids, rows), _int64(self._mask, rows)
        there = torch.arange(self.max_len) < _int64(self._lengths, rows)[:, None]
        labels = ids.masked_fill(loss == 0, IGNORED)
        names = ("input_ids", "labels", "attention_mask", "loss_mask")
        return dict(zip(names, (ids, labels, there.long(), loss), strict=True))


class DPODataset(RowDataset):
    """Pairs: ``(chosen_ids, chosen_mask, rejected_ids, rejected_mask)``, int64 ``[max_len]``.

    The masks are loss masks: 1 on the assistant turns behind the prompt, whose ids are the same
    on both sides.
    """

    _kind, _cache, _sides = "dpo", staticmethod(dpo_cache), (2,)

    def _gather(self, rows: Rows) -> tuple[torch.Tensor, ...]:
        ids, mask = _int64(self._ids, rows), _int64(self._mask, rows)
        return ids[:, 0], mask[:, 0], ids[:, 1], mask[:, 1]


def _int64(file: MappedFile, rows: Rows) -> torch.Tensor:
    return torch.from_numpy(file.array[rows].astype(np.int64))


class BatchLoader(DataLoader[Any]):
    """A ``DataLoader`` without workers that hands on each batch as it was gathered.

    The bookkeeping of the general one would take a third of the time of a batch.
    """

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # its own class is not needed
        dataset: Any = self.dataset
        for rows in self.batch_sampler or ():
            yield self.collate_fn(dataset.__getitems__(rows))


def loader(
    dataset: TokenDataset,
    batch_size: int,
    *,
    shuffle: bool = True,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
) -> BatchLoader:
    """Batches of tensors, each one gather, made in this process; one pass is one epoch.

    Its ``batch_sampler`` is a ``BatchOrder``: ``state_dict()`` is one position and the digest of
    the dataset, ``load_state_dict()`` goes on there, at any ``world_size``.
    """
    if not len(dataset):
        raise ValueError(f"the dataset has no sample{dataset.EMPTY}")
    order = BatchOrder(
        len(dataset),
        batch_size,
        dataset=dataset.fingerprint,
        seed=seed,
        shuffle=shuffle,
        rank=rank,
        world_size=world_size,
    )
    return BatchLoader(dataset, batch_sampler=order, collate_fn=_as_tensors)


def _as_tensors(batch: Any) -> Any:
    return batch.tensors
