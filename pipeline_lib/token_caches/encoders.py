"""What encodes the conversations of a cache, in its order: as a stream, or as rows of one width."""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.chat.store import ConversationBatch, Conversations
from pipeline_lib.templates.chat_format import ChatFormat
from pipeline_lib.templates.encoding import UNUSABLE
from pipeline_lib.token_caches.build import CacheRows
from pipeline_lib.token_caches.coders import Coder, coder_for
from pipeline_lib.token_caches.counts import Counts, added, by_source
from pipeline_lib.token_caches.fitted import REFUSED, Amounts, Fitted, Flags
from pipeline_lib.token_caches.layout import STREAM, RowFiles
from pipeline_lib.tokenization.tokenizer import Tokenizer

SEEN = "conversations"
_SHOWN = 80
_PIECE = 250  # conversations in one call of the encoder for the stream; documents may be long
_log = logging.getLogger(__name__)

Rows = NDArray[np.int64]
Rules = tuple[Callable[[Rows], dict[str, Flags]], Callable[[Coder, ConversationBatch], Fitted]]
"""Why some rows are left out unread, and how the others become samples."""


class _Encoder:
    """Encodes conversations in the order of a cache.

    Coder and order are made on first use: opening a complete cache needs neither.
    """

    def __init__(
        self,
        conversations: Conversations,
        order: Callable[[], NDArray[np.int64]],
        tokenizer: Tokenizer,
        form: ChatFormat,
    ) -> None:
        self._conversations, self._make_order = conversations, order
        self._tokenizer, self._form = tokenizer, form
        self._kind, self._named = "auto", set[str]()

    def use_reference(self) -> None:
        """From now on only the reference encoder is used."""
        self._kind = "tokenizers"
        self.__dict__.pop("_coder", None)

    @functools.cached_property
    def _coder(self) -> Coder:
        return coder_for(self._form, self._tokenizer, self._kind)

    @functools.cached_property
    def _order(self) -> NDArray[np.int64]:
        return self._make_order()

    def _rows(self, start: int, stop: int) -> Rows:
        return self._order[start:stop]

    def _name_first(self, batch: ConversationBatch, rows: Rows, flags: Amounts) -> None:
        """Name the first conversation that is left out for each reason that tokenizer or template
        are."""
        reasons = [r for r in flags if r in UNUSABLE or r.startswith(REFUSED)]
        for reason in (r for r in reasons if r not in self._named and flags[r].any()):
            self._named.add(reason)
            row = int(np.flatnonzero(flags[reason])[0])
            texts = batch.turns.contents[batch.turns.offsets[row] : batch.turns.offsets[row + 1]]
            _log.warning(
                "conversations %s are left out and counted; the first is conversation %s of %s: %r",
                self._coder.words.get(reason, reason), f"{int(rows[row]):,}",
                list(self._conversations.counts)[int(batch.source[row])],
                b" ".join(texts)[:_SHOWN].decode("utf-8", "ignore"),
            )  # fmt: skip

    def _counts(self, rows: Rows, values: Mapping[str, NDArray[np.generic]]) -> Counts:
        names = list(self._conversations.counts)
        return by_source(names, self._conversations.source_numbers(rows), values)


class StreamEncoder(_Encoder):
    """One text after another, each with an end token after it."""

    def __call__(self, start: int, stop: int, held: Mapping[str, int]) -> CacheRows:
        _ = held
        stream, counts = [np.empty(0, np.int32)], Counts()
        for first in range(start, stop, _PIECE):
            rows = self._rows(first, min(first + _PIECE, stop))
            batch = self._conversations.read(rows)
            ids, amounts = self._coder.stream(batch)
            self._name_first(batch, rows, amounts)
            stream.append(ids)
            amounts = {SEEN: np.ones(len(rows), np.int64), **amounts}
            counts = added(counts, self._counts(rows, amounts))
        return CacheRows({STREAM.name: np.concatenate(stream)}, counts)


class RowEncoder(_Encoder):
    """Whole samples of conversations or pairs, with a record of each."""

    def __init__(
        self,
        conversations: Conversations,
        order: Callable[[], NDArray[np.int64]],
        tokenizer: Tokenizer,
        form: ChatFormat,
        files: RowFiles,
        rules: Rules,
    ) -> None:
        super().__init__(conversations, order, tokenizer, form)
        self._files, (self._left_out, self._make) = files, rules

    def __call__(self, start: int, stop: int, held: Mapping[str, int]) -> CacheRows:
        rows = self._rows(start, stop)
        reasons = self._left_out(rows)
        places = np.flatnonzero(
            ~np.logical_or.reduce([np.zeros(len(rows), bool), *reasons.values()])
        )
        used = rows[places]
        batch = self._conversations.read(used)
        made = self._make(self._coder, batch)
        self._name_first(batch, used, made.flags)
        records, ids = made.records, self._files.ids
        records["end"] += held[ids.name] // ids.item_bytes
        records["conversation"] = start + places[made.owner]
        stored: list[NDArray[Any]] = [made.tokens.ids, made.tokens.mask, records]
        arrays = {file.name: part for file, part in zip(self._files.all, stored, strict=True)}
        seen = self._counts(rows, {SEEN: np.ones(len(rows), np.int64), **reasons})
        return CacheRows(arrays, added(seen, self._counts(used, made.flags)))
