"""The three token caches of the chat path: their encoders and their keys.

A conversation that is left out is counted under a reason, for each source. A stream does not depend
on the width of the windows that are cut from it, so its key has no width.
"""

import functools
import logging
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest, selection
from pipeline_lib.chat.mixture import Mixture
from pipeline_lib.chat.store import ConversationBatch, Conversations, content_digest
from pipeline_lib.chat.synthetic_rejections import SYNTHETIC_VERSION, with_rejected
from pipeline_lib.records import Turn
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.keyed_folder import Key
from pipeline_lib.templates import chatml
from pipeline_lib.templates.encoding import (
    ENCODING_VERSION,
    Ids,
    Template,
    encode_turns,
    special_ids,
    template_for,
)
from pipeline_lib.token_caches.build import Cache, CacheRows, CacheSpec, open_or_build
from pipeline_lib.token_caches.counts import Counts, added, by_source
from pipeline_lib.token_caches.layout import STREAM, Kind, row_files, without_loss
from pipeline_lib.token_caches.rows import (
    TOO_LONG,
    Fitted,
    OverLength,
    check_over_length,
    dpo_rows,
    sft_rows,
)
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.tokenizer import Tokenizer

FORMAT_VERSION = 2
BATCHES: dict[Kind, int] = {"pretrain": 2_000, "sft": 500, "dpo": 500}
"""Conversations in one write batch."""
KEPT = "kept"
REAL = "real pairs"
WARN_SHARE = 0.05
"""If more than this share of the conversations of a source is too long, the log warns."""
MASK_POLICY = "assistant content and its <|im_end|>, as far as they are to be learned"
_PROBE = (
    Turn(role="system", content="Be brief."),
    Turn(role="user", content="Grüße, 世界 " + "".join(CONTROL_TOKENS)),
    Turn(role="assistant", content="\n<think>\n1\n</think>\n\nYes. "),
)
_PIECE = 250  # conversations in one call of the encoder for the stream; documents may be long
_log = logging.getLogger(__name__)


def pretrain_cache(
    options: CacheOptions, mixture: Mixture, tokenizer: Tokenizer, *, limit: int = -1
) -> Cache:
    """The token stream of a mixture.

    ``limit``: use only the first conversations of its index; -1 uses all.
    """
    index = mixture.index if limit == -1 else mixture.index[:limit]
    key = _key("pretrain", tokenizer) | {
        "limit": limit,
        "limit_selects": "first of the mixture's seeded order",
        "texts_fp": mixture.fingerprint,
    }
    encode = _StreamEncoder(mixture.conversations, lambda: index, tokenizer)
    spec = CacheSpec("pretrain", key, (STREAM.name,), len(index), BATCHES["pretrain"], encode)
    return open_or_build(options, spec)


def sft_cache(
    options: CacheOptions,
    conversations: Conversations,
    tokenizer: Tokenizer,
    *,
    max_len: int,
    over_length: OverLength = "drop",
    limit: int = -1,
) -> Cache:
    """Rows of ``max_len`` tokens (ids, loss mask, length), one for each conversation that fits.

    ``over_length``: the rule for longer conversations (see ``rows``). ``limit``: use a seeded
    sample of the conversations; -1 uses all.
    """
    key = _row_key("sft", conversations, tokenizer, max_len, over_length, limit)

    def fit(template: Template, batch: ConversationBatch) -> Fitted:
        return sft_rows(template, batch.turns, max_len, over_length)

    return _row_cache("sft", options, conversations, tokenizer, key, fit)


def dpo_cache(
    options: CacheOptions,
    conversations: Conversations,
    tokenizer: Tokenizer,
    *,
    max_len: int,
    over_length: OverLength = "drop",
    limit: int = -1,
) -> Cache:
    """Two rows of ``max_len`` tokens for each pair, chosen and rejected, with the same prompt.

    A real pair of a source is used and counted. For other conversations the rejected answer is the
    last assistant turn with its words shuffled. ``over_length`` and ``limit`` as for ``sft_cache``.
    """
    key = _row_key("dpo", conversations, tokenizer, max_len, over_length, limit)
    key["rejected"] = f"real (counted), else words shuffled, version {SYNTHETIC_VERSION}"

    def fit(template: Template, batch: ConversationBatch) -> Fitted:
        fitted = dpo_rows(template, with_rejected(batch), max_len, over_length)
        real = fitted.kept & (batch.prompt > 0)
        return fitted._replace(flags=fitted.flags | {REAL: real})

    return _row_cache("dpo", options, conversations, tokenizer, key, fit)


def _key(kind: Kind, tokenizer: Tokenizer) -> Key:
    return {
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "encoding_version": ENCODING_VERSION,
        "tok_sha": tokenizer.sha256,
        **special_ids(tokenizer),
        "probe_render": digest.of_json(list(chatml.segments(_PROBE))),
        "mask_policy": MASK_POLICY,
    }


def _row_key(
    kind: Kind,
    conversations: Conversations,
    tokenizer: Tokenizer,
    max_len: int,
    over_length: OverLength,
    limit: int,
) -> Key:
    check_over_length(over_length)
    if max_len < 1:
        raise ValueError(f"max_len is {max_len}; expected a number of tokens above 0")
    return _key(kind, tokenizer) | {
        "max_len": max_len,
        "over_length": over_length,
        "raw_fp": content_digest(conversations.fingerprints),
        "limit": limit,
        "limit_selects": f"seeded sample {selection.SELECTION_VERSION}",
    }


def _row_cache(
    kind: Kind,
    options: CacheOptions,
    conversations: Conversations,
    tokenizer: Tokenizer,
    key: Key,
    fit: Callable[[Template, ConversationBatch], Fitted],
) -> Cache:
    count, limit = len(conversations), int(key["limit"])
    order = functools.partial(selection.sample, count, limit, 0, "limit", kind)
    names = tuple(file.name for file in row_files(kind, int(key["max_len"])).all)
    encode = _RowEncoder(conversations, order, tokenizer, names, fit)
    total = selection.sample_size(count, limit)
    cache = open_or_build(options, CacheSpec(kind, key, names, total, BATCHES[kind], encode))
    _warn_of_losses(cache, kind)
    return cache


class _Encoder:
    """Encodes conversations in the order of a cache.

    Template and order are made on first use: opening a complete cache needs neither.
    """

    def __init__(
        self,
        conversations: Conversations,
        order: Callable[[], NDArray[np.int64]],
        tokenizer: Tokenizer,
    ) -> None:
        self._conversations, self._make_order, self._tokenizer = conversations, order, tokenizer

    @functools.cached_property
    def _template(self) -> Template:
        return template_for(self._tokenizer)

    @functools.cached_property
    def _order(self) -> NDArray[np.int64]:
        return self._make_order()

    def _read(self, start: int, stop: int) -> ConversationBatch:
        return self._conversations.read(self._order[start:stop])

    def _counts(self, batch: ConversationBatch, values: dict[str, NDArray[np.generic]]) -> Counts:
        everything = {"conversations": np.ones(len(batch.source), np.int64), **values}
        return by_source(list(self._conversations.counts), batch.source, everything)


class _StreamEncoder(_Encoder):
    """One text after another, each with an end token after it."""

    def __call__(self, start: int, stop: int) -> CacheRows:
        stream, counts = [np.empty(0, np.int32)], Counts()
        for first in range(start, stop, _PIECE):
            batch = self._read(first, min(first + _PIECE, stop))
            ids, amounts = self._with_ends(batch)
            stream.append(ids)
            counts = added(counts, self._counts(batch, amounts))
        return CacheRows({STREAM.name: np.concatenate(stream)}, counts)

    def _with_ends(self, batch: ConversationBatch) -> tuple[Ids, dict[str, NDArray[np.generic]]]:
        """The ids of a batch with end tokens, and the token counts of each conversation."""
        tokens = encode_turns(self._template, batch.turns)
        tokens.ids[tokens.withheld] = without_loss(tokens.ids[tokens.withheld])
        ends = tokens.bounds[batch.turns.offsets]
        trained = np.diff(np.concatenate([[0], np.cumsum(tokens.mask)])[ends])
        amounts: dict[str, NDArray[np.generic]] = {"tokens": np.diff(ends) + 1, "trained": trained}
        return np.insert(tokens.ids, ends[1:], self._template.eos), amounts


class _RowEncoder(_Encoder):
    """Rows of one width for the conversations or pairs that fit."""

    def __init__(
        self,
        conversations: Conversations,
        order: Callable[[], NDArray[np.int64]],
        tokenizer: Tokenizer,
        names: tuple[str, ...],
        fit: Callable[[Template, ConversationBatch], Fitted],
    ) -> None:
        super().__init__(conversations, order, tokenizer)
        self._names, self._fit = names, fit

    def __call__(self, start: int, stop: int) -> CacheRows:
        batch = self._read(start, stop)
        fitted = self._fit(self._template, batch)
        arrays = (fitted.ids, fitted.mask, fitted.lengths)
        amounts = {
            "tokens": _by_conversation(fitted.kept, fitted.lengths),
            "trained": _by_conversation(fitted.kept, fitted.mask),
        }
        counts = self._counts(batch, {**fitted.flags, KEPT: fitted.kept, **amounts})
        return CacheRows(dict(zip(self._names, arrays, strict=True)), counts)


def _by_conversation(kept: NDArray[np.bool_], rows: NDArray[np.signedinteger]) -> NDArray[np.int64]:
    """The sum of the row of each conversation; 0 for a conversation without a row."""
    values = np.zeros(len(kept), np.int64)
    values[kept] = rows.sum(axis=tuple(range(1, rows.ndim)))
    return values


def _warn_of_losses(cache: Cache, kind: Kind) -> None:
    key = cache.record.key
    for name, counts in cache.counts.items():
        seen, lost = counts["conversations"], counts[TOO_LONG]
        if lost > WARN_SHARE * seen:
            other = " or choose over_length='truncate_turns'" * (key["over_length"] == "drop")
            _log.warning(
                "%s: %s of %s conversations of %s are longer than max_len %s and were left out; "
                "raise max_len%s",
                *(kind, f"{lost:,}", f"{seen:,}", name, key["max_len"], other),
            )
