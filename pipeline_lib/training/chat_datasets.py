"""The three datasets over token caches: pretraining text, conversations, preference pairs."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline_lib import digest
from pipeline_lib.chat import missing
from pipeline_lib.chat.mixture import Mixture
from pipeline_lib.chat.store import Conversations
from pipeline_lib.corpus.mapped import MappedFile
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.table import Table
from pipeline_lib.templates.chat_format import ChatFormat
from pipeline_lib.token_caches.build import Cache
from pipeline_lib.token_caches.caches import Pairs, dpo_cache, pretrain_cache, sft_cache
from pipeline_lib.token_caches.counts import counts_table
from pipeline_lib.token_caches.fitted import OverLength
from pipeline_lib.token_caches.layout import STREAM
from pipeline_lib.token_caches.row_cache import RowCache
from pipeline_lib.tokenization.tokenizer import Tokenizer
from pipeline_lib.training.padded_rows import PaddedRows
from pipeline_lib.training.token_dataset import Indices, TokenDataset

IGNORED = -100
"""Label of a position without loss."""
UNUSED = "source not chosen"


def _chosen(
    conversations: Conversations, sources: Sequence[str] | None
) -> tuple[Conversations, dict[str, int]]:
    """The conversations of the named sources, and the counts of the others."""
    if sources is None:
        return conversations, {}
    chosen = conversations.only(sources)
    counts = conversations.counts.items()
    return chosen, {name: rows for name, rows in counts if name not in chosen.counts}


class CachedDataset(TokenDataset):
    """A dataset over a token cache, with the cache's explanation and counts."""

    missing: Mapping[str, str] = {}  # source that was asked for -> why it is not in here

    cache: Cache | RowCache

    def __init__(self, cache: Cache | RowCache, max_len: int, unused: Mapping[str, int]) -> None:
        self.cache, self.max_len = cache, max_len
        self.fingerprint = digest.of_json([cache.fingerprint, max_len])
        self._unused = {name: {UNUSED: rows} for name, rows in unused.items()}

    def explain(self) -> str:
        """One line that says why the cache was used, continued or built."""
        return self.cache.explanation

    @property
    def table(self) -> Table:
        """A table with a row for each source: counts of conversations, by reason, and of tokens.

        The conversations of a source that ``sources`` does not name are counted as not chosen.
        """
        counts = counts_table(self.cache.counts | self._unused)
        return missing.with_notes(counts, missing.as_notes(self.missing))


class PretrainDataset(CachedDataset):
    """Windows of ``max_len`` tokens over the token stream of a mixture.

    A sample is ``{"input_ids": int64 [max_len], "labels": int64 [max_len]}``. Both are equal,
    because models of ``transformers`` shift the labels; only in turns that are not to be learned
    the labels are -100. Windows do not overlap; the
    ``unused_tokens`` after the last window are in no sample. ``limit``: use only the first
    conversations of the mixture's order; -1 uses all. ``sources``: names of the sources to use;
    None uses all. ``chat_format``: how conversations are written (see ``chat_format``); None takes
    that of the tokenizer. Under a model's template, a document is its plain text.

    ``ValueError`` for a ``max_len`` below 1 and for an unknown source, ``CacheError`` for a damaged
    cache, ``Locked`` if another process builds the same cache, ``TokenizerError`` if the tokenizer
    can not be used with its template.
    """

    def __init__(
        self,
        mixture: Mixture,
        tokenizer: Tokenizer,
        cache: CacheOptions,
        *,
        max_len: int,
        limit: int = -1,
        sources: Sequence[str] | None = None,
        chat_format: ChatFormat | None = None,
    ) -> None:
        if max_len < 1:
            raise ValueError(f"max_len is {max_len}; expected a number of tokens above 0")
        _, unused = _chosen(mixture.conversations, sources)
        used = mixture if sources is None else mixture.only(sources)
        made = pretrain_cache(cache, used, tokenizer, limit=limit, form=chat_format)
        super().__init__(made, max_len, unused)
        self.missing = used.missing
        self._tokens = made.size(STREAM.name) // STREAM.item_bytes
        windows = (self._tokens // max_len, max_len)
        self._windows = MappedFile(made.path(STREAM.name), STREAM.dtype, windows)

    @property
    def unused_tokens(self) -> int:
        """Tokens after the last window."""
        return self._tokens - len(self) * self.max_len

    def __len__(self) -> int:
        return self._windows.shape[0]

    def _gather(self, rows: Indices) -> dict[str, torch.Tensor]:
        stored = _int64(self._windows, rows)
        no_loss = stored < 0
        ids = torch.where(no_loss, ~stored, stored)
        return {"input_ids": ids, "labels": ids.masked_fill(no_loss, IGNORED)}


class RowDataset(CachedDataset):
    """Rows of at most ``max_len`` tokens; padding is made when a batch is read."""

    def __init__(self, cache: RowCache, max_len: int, unused: Mapping[str, int]) -> None:
        super().__init__(cache, max_len, unused)
        self._rows = PaddedRows(cache, max_len)

    def __len__(self) -> int:
        return len(self._rows)

    def lengths(self, rows: Indices) -> NDArray[np.int32]:
        """Tokens without padding of some rows, int32 ``[rows]``; of pairs ``[rows, 2]``."""
        lengths = self._rows.lengths(np.asarray(rows, np.int64))
        return lengths if lengths.shape[1] > 1 else lengths[:, 0]


class SFTDataset(RowDataset):
    """Conversations for supervised fine-tuning, one row each.

    A sample is a dict of int64 ``[max_len]``: ``input_ids`` (with padding at the end), ``labels``
    (the ids, -100 without loss, not shifted), ``attention_mask`` (1 on real tokens), ``loss_mask``
    (1 on assistant contents and their end marks, but not in turns that are not to be learned).

    ``over_length``: a conversation over ``max_len`` tokens is left out (``"drop"``), loses its
    oldest turns (``"truncate_turns"``) or its end (``"truncate_right"``). ``limit``: use a seeded
    sample of that many conversations; -1 uses all. ``sources``: names of the sources to use; None
    uses all. ``documents``: also train on what ``document`` returned, a text that answers nobody;
    as a rule that is pretraining text, and left out. ``chat_format``: how conversations are written
    and what of them is learned (see ``chat_format``); None takes that of the tokenizer, and all
    assistant turns. There may be several samples of one conversation. ``table`` counts the
    conversations that are left out, by reason. ``ValueError`` for a wrong argument, other errors as
    for ``PretrainDataset``.
    """

    def __init__(
        self,
        conversations: Conversations,
        tokenizer: Tokenizer,
        cache: CacheOptions,
        *,
        max_len: int,
        over_length: OverLength = "drop",
        limit: int = -1,
        sources: Sequence[str] | None = None,
        documents: bool = False,
        chat_format: ChatFormat | None = None,
    ) -> None:
        chosen, unused = _chosen(conversations, sources)
        made = sft_cache(
            *(cache, chosen, tokenizer),
            max_len=max_len,
            over_length=over_length,
            limit=limit,
            documents=documents,
            form=chat_format,
        )
        super().__init__(made, max_len, unused)
        self.missing = chosen.missing

    def _gather(self, rows: Indices) -> dict[str, torch.Tensor]:
        ids, loss = (torch.from_numpy(part[:, 0]) for part in self._rows.padded(rows))
        there = torch.arange(self.max_len) < torch.from_numpy(self.lengths(rows))[:, None]
        labels = ids.masked_fill(loss == 0, IGNORED)
        names = ("input_ids", "labels", "attention_mask", "loss_mask")
        return dict(zip(names, (ids, labels, there.long(), loss), strict=True))


class DPODataset(RowDataset):
    """Preference pairs: two rows with the same prompt.

    A sample is ``(chosen_ids, chosen_mask, rejected_ids, rejected_mask)``, each int64
    ``[max_len]``. The masks are loss masks: 1 on contents and end marks of the assistant turns
    after the prompt. The ids of the prompt are the same on both sides. For a conversation without a
    pair, the rejected answer is the chosen one with its words in other places (its characters, in
    scripts without spaces), in the same layout; ``real`` tells them apart, ``table`` counts both,
    and ``pairs="real"`` leaves them out. ``over_length``, ``limit``,
    ``sources``, ``chat_format`` and errors as for ``SFTDataset``.
    """

    def __init__(
        self,
        conversations: Conversations,
        tokenizer: Tokenizer,
        cache: CacheOptions,
        *,
        max_len: int,
        over_length: OverLength = "drop",
        limit: int = -1,
        sources: Sequence[str] | None = None,
        pairs: Pairs = "all",
        chat_format: ChatFormat | None = None,
    ) -> None:
        chosen, unused = _chosen(conversations, sources)
        made = dpo_cache(
            *(cache, chosen, tokenizer),
            max_len=max_len,
            over_length=over_length,
            limit=limit,
            pairs=pairs,
            form=chat_format,
        )
        super().__init__(made, max_len, unused)
        self.missing = chosen.missing

    def real(self, rows: Indices) -> NDArray[np.bool_]:
        """For some rows, whether both answers come from the data set: bool ``[rows]``.

        False where the rejected answer was made.
        """
        return self._rows.records(rows)["real"].copy()

    def _gather(self, rows: Indices) -> tuple[torch.Tensor, ...]:
        ids, mask = self._rows.padded(rows)
        sides = (ids[:, 0], mask[:, 0], ids[:, 1], mask[:, 1])
        return tuple(map(torch.from_numpy, sides))


def _int64(file: MappedFile, rows: Indices) -> torch.Tensor:
    return torch.from_numpy(file.array[rows].astype(np.int64))
