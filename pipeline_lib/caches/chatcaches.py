"""The token caches of the chat side: what each holds, how it is encoded, what its key names.

    pretrain   pretrain_tokens.bin                     int32 stream, <|endoftext|> after each
    sft        sft_ids.bin  sft_mask.bin  sft_len.bin  int32, int8, int32; a row per conversation
    dpo        dpo_ids.bin  dpo_mask.bin  dpo_len.bin  the same; a row per pair: chosen, rejected

What is left out is counted under a reason, for each source. A stream does not depend on the
width of the windows cut from it, so its key does not name one.
"""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import chat, digest, selection
from pipeline_lib.cache import Block, Cache, Counts, Plan, added, open_or_build
from pipeline_lib.caches.cachekey import Key
from pipeline_lib.caches.cachesite import CacheSite
from pipeline_lib.caches.encoding import (
    ENCODING_VERSION,
    Ids,
    Template,
    encode_turns,
    special_ids,
    template_for,
)
from pipeline_lib.caches.tokenrows import (
    TOO_LONG,
    Fitted,
    OverLength,
    check_over_length,
    dpo_rows,
    sft_rows,
)
from pipeline_lib.chats.mixture import Mixture
from pipeline_lib.chats.preferences import SYNTHETIC_VERSION, with_rejected
from pipeline_lib.chats.turnstore import Batch, Conversations, content_digest
from pipeline_lib.records import Turn
from pipeline_lib.table import Cell, Table

if TYPE_CHECKING:
    from pipeline_lib.tokenizer import Tokenizer

FORMAT_VERSION = 1
BATCHES = {"pretrain": 2_000, "sft": 500, "dpo": 500}
"""Conversations in one write batch."""
KEPT = "kept"
REAL = "real pairs"
WARN_SHARE = 0.05
MASK_POLICY = "assistant content and its <|im_end|>"
_PROBE = (
    Turn(role="system", content="Be brief."),
    Turn(role="user", content="Grüße, 世界 " + "".join(chat.CONTROL_TOKENS)),
    Turn(role="assistant", content="\n<think>\n1\n</think>\n\nYes. "),
)
_PIECE = 250
_STREAM = "pretrain_tokens.bin"
_log = logging.getLogger(__name__)


def pretrain_cache(
    site: CacheSite, mixture: Mixture, tokenizer: "Tokenizer", *, limit: int = -1
) -> Cache:
    """The token stream of a mixture; ``limit`` takes the first conversations of its index."""
    conversations, index = mixture.conversations, mixture.index
    key = _key("pretrain", tokenizer) | {
        "limit": limit,
        "limit_selects": "first of the mixture's seeded order",
        "texts_fp": mixture.fingerprint,
    }

    def encode(template: Template, rows: NDArray[np.int64]) -> Block:
        pieces = range(0, len(rows), _PIECE)  # long documents are not in memory all at once
        streams, blocks = [np.empty(0, np.int32)], []
        for start in pieces:
            batch = conversations.read(rows[start : start + _PIECE])
            stream, amounts = _with_ends(template, batch)
            streams.append(stream)
            blocks.append(_counts(conversations, batch, {}, amounts))
        return Block({_STREAM: np.concatenate(streams)}, functools.reduce(added, blocks, {}))

    index = index if limit == -1 else index[:limit]
    rows = (len(index), lambda: index)
    return open_or_build(site, _plan("pretrain", key, (_STREAM,), rows, tokenizer, encode))


def _with_ends(template: Template, batch: Batch) -> tuple[Ids, dict[str, NDArray[np.int64]]]:
    """The ids of a batch with the end of a document behind each conversation, and their numbers."""
    tokens = encode_turns(template, batch.turns)
    ends = tokens.bounds[batch.turns.offsets]
    trained = np.diff(np.concatenate([[0], np.cumsum(tokens.mask)])[ends])
    amounts = {"tokens": np.diff(ends) + 1, "trained": trained}
    return np.insert(tokens.ids, ends[1:], template.eos), amounts


def sft_cache(
    site: CacheSite,
    conversations: Conversations,
    tokenizer: "Tokenizer",
    *,
    max_len: int,
    over_length: OverLength = "drop",
    limit: int = -1,
) -> Cache:
    """Rows of ``max_len`` with ids, loss mask and length, one for each conversation that fits."""
    key = _row_key("sft", conversations, tokenizer, max_len, over_length)

    def fit(template: Template, batch: Batch) -> Fitted:
        return sft_rows(template, batch.turns, max_len, over_length)

    return _row_cache(site, conversations, tokenizer, key, limit, fit)


def dpo_cache(
    site: CacheSite,
    conversations: Conversations,
    tokenizer: "Tokenizer",
    *,
    max_len: int,
    over_length: OverLength = "drop",
    limit: int = -1,
) -> Cache:
    """Two rows of ``max_len`` for each pair, chosen and rejected, with one prompt.

    Real pairs are used where a source has them, and counted; else the rejected answer is the
    chosen one's last assistant turn with its words shuffled.
    """
    key = _row_key("dpo", conversations, tokenizer, max_len, over_length)
    key["rejected"] = f"real (counted), else words shuffled, version {SYNTHETIC_VERSION}"

    def fit(template: Template, batch: Batch) -> Fitted:
        fitted = dpo_rows(template, with_rejected(batch), max_len, over_length)
        real = fitted.kept & (batch.prompt > 0)
        return fitted._replace(flags=fitted.flags | {REAL: real})

    return _row_cache(site, conversations, tokenizer, key, limit, fit)


def _key(kind: str, tokenizer: "Tokenizer") -> Key:
    return {
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "encoding_version": ENCODING_VERSION,
        "tok_sha": tokenizer.sha256,
        **special_ids(tokenizer),
        "probe_render": digest.of_json(list(chat.segments(_PROBE))),
        "mask_policy": MASK_POLICY,
    }


def _row_key(
    kind: str,
    conversations: Conversations,
    tokenizer: "Tokenizer",
    max_len: int,
    over_length: OverLength,
) -> Key:
    check_over_length(over_length)
    if max_len < 1:
        raise ValueError(f"max_len is {max_len}; expected a number of tokens above 0")
    return _key(kind, tokenizer) | {
        "max_len": max_len,
        "over_length": over_length,
        "raw_fp": content_digest(conversations.fingerprints),
    }


def _row_cache(
    site: CacheSite,
    conversations: Conversations,
    tokenizer: "Tokenizer",
    key: Key,
    limit: int,
    fit: Callable[[Template, Batch], Fitted],
) -> Cache:
    kind = str(key["kind"])
    key |= {"limit": limit, "limit_selects": f"seeded sample {selection.SELECTION_VERSION}"}
    names = (f"{kind}_ids.bin", f"{kind}_mask.bin", f"{kind}_len.bin")

    def encode(template: Template, rows: NDArray[np.int64]) -> Block:
        batch = conversations.read(rows)
        fitted = fit(template, batch)
        parts: tuple[NDArray[Any], ...] = (fitted.ids, fitted.mask, fitted.lengths)
        arrays = dict(zip(names, parts, strict=True))
        return Block(arrays, _row_counts(conversations, batch, fitted))

    count = len(conversations)
    total = selection.sample_size(count, limit)
    order = functools.partial(selection.sample, count, limit, 0, "limit", kind)
    cache = open_or_build(site, _plan(kind, key, names, (total, order), tokenizer, encode))
    _warn_of_losses(cache, kind)
    return cache


def _plan(
    kind: str,
    key: Key,
    files: Sequence[str],
    rows: tuple[int, Callable[[], NDArray[np.int64]]],
    tokenizer: "Tokenizer",
    encode: Callable[[Template, NDArray[np.int64]], Block],
) -> Plan:
    total, order = rows

    @functools.cache
    def needed() -> tuple[Template, NDArray[np.int64]]:  # to build; a complete cache needs neither
        return template_for(tokenizer), order()

    def block(start: int, stop: int) -> Block:
        template, places = needed()
        return encode(template, places[start:stop])

    return Plan(kind, key, files, total, BATCHES[kind], block)


def _row_counts(conversations: Conversations, batch: Batch, fitted: Fitted) -> Counts:
    def by_conversation(row_values: NDArray[Any]) -> NDArray[np.int64]:
        values = np.zeros(len(fitted.kept), np.int64)
        values[fitted.kept] = row_values.sum(axis=tuple(range(1, row_values.ndim)))
        return values

    amounts = {
        "tokens": by_conversation(fitted.lengths),
        "trained": by_conversation(fitted.mask),
    }
    return _counts(conversations, batch, fitted.flags | {KEPT: fitted.kept}, amounts)


def _counts(
    conversations: Conversations,
    batch: Batch,
    flags: Mapping[str, NDArray[np.bool_]],
    amounts: Mapping[str, NDArray[np.int64]],
) -> Counts:
    everything = {"conversations": np.ones(len(batch.source), np.int64), **flags, **amounts}
    counts: Counts = {source.name: {} for source in conversations.sources}
    for what, values in everything.items():
        sums = np.bincount(batch.source, values, len(counts)).astype(np.int64).tolist()
        for source, total in zip(counts.values(), sums, strict=True):
            source[what] = total
    return counts


def _warn_of_losses(cache: Cache, kind: str) -> None:
    for name, counts in cache.counts.items():
        seen, lost = counts["conversations"], counts[TOO_LONG]
        if lost > WARN_SHARE * seen:
            _log.warning(
                "%s: %s of %s conversations of %s are longer than max_len %s and were left out; "
                "raise max_len, or choose over_length='truncate_turns'",
                *(kind, f"{lost:,}", f"{seen:,}", name, cache.meta["key"]["max_len"]),
            )


def counts_table(cache: Cache) -> Table:
    """What a cache holds and what it left out, for each source."""
    columns = list(dict.fromkeys(what for counts in cache.counts.values() for what in counts))
    rows: list[tuple[Cell, ...]] = [
        (name, *(counts.get(what, 0) for what in columns)) for name, counts in cache.counts.items()
    ]
    return Table(("source", *columns), tuple(rows))
