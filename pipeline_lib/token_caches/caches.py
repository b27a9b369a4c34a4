"""The three token caches of the chat path: their encoders and their keys.

A conversation that is left out is counted under a reason, for each source. A stream does not depend
on the width of the windows that are cut from it, so its key has no width.
"""

import functools
import logging
from typing import Literal, get_args

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
    Template,
    special_ids,
)
from pipeline_lib.token_caches.build import Cache, CacheSpec, open_or_build
from pipeline_lib.token_caches.encoders import SEEN, RowEncoder, Rows, Rules, StreamEncoder
from pipeline_lib.token_caches.layout import STREAM, Kind, row_files
from pipeline_lib.token_caches.rows import (
    TOO_LONG,
    Fitted,
    Flags,
    OverLength,
    check_over_length,
    dpo_rows,
    sft_rows,
)
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.tokenizer import Tokenizer

FORMAT_VERSION = 3
BATCHES: dict[Kind, int] = {"pretrain": 2_000, "sft": 500, "dpo": 500}
"""Conversations in one write batch."""
DOCUMENT = "document"
REAL, MADE = "real pairs", "made pairs"
NOT_REAL = "no real pair"
Pairs = Literal["real", "all"]
WARN_SHARE = 0.05
"""If more than this share of the conversations of a source is too long, the log warns."""
MASK_POLICY = "assistant content and its <|im_end|>, as far as they are to be learned"
_PROBE = (
    Turn(role="system", content="Be brief."),
    Turn(role="user", content="Grüße, 世界 " + "".join(CONTROL_TOKENS)),
    Turn(role="assistant", content="\n<think>\n1\n</think>\n\nYes. "),
)
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
    encode = StreamEncoder(mixture.conversations, lambda: index, tokenizer)
    spec = CacheSpec(
        "pretrain",
        key,
        (STREAM.name,),
        len(index),
        BATCHES["pretrain"],
        encode,
        encode.use_reference,
    )
    return open_or_build(options, spec)


def sft_cache(
    options: CacheOptions,
    conversations: Conversations,
    tokenizer: Tokenizer,
    *,
    max_len: int,
    over_length: OverLength = "drop",
    limit: int = -1,
    documents: bool = False,
) -> Cache:
    """Rows of ``max_len`` tokens (ids, loss mask, length), one for each conversation that fits.

    ``over_length``: the rule for longer conversations (see ``rows``). ``limit``: use a seeded
    sample of the conversations; -1 uses all. ``documents``: whether texts that answer nobody are
    used as well; they are counted either way.
    """
    key = _row_key("sft", conversations, tokenizer, max_len, over_length, limit)
    key["documents"] = documents

    def left_out(rows: Rows) -> dict[str, Flags]:
        return {} if documents else {DOCUMENT: conversations.documents(rows)}

    def fit(template: Template, batch: ConversationBatch) -> Fitted:
        return sft_rows(template, batch.turns, max_len, over_length)

    return _row_cache("sft", options, conversations, tokenizer, key, (left_out, fit))


def dpo_cache(
    options: CacheOptions,
    conversations: Conversations,
    tokenizer: Tokenizer,
    *,
    max_len: int,
    over_length: OverLength = "drop",
    limit: int = -1,
    pairs: Pairs = "all",
) -> Cache:
    """Two rows of ``max_len`` tokens for each pair, chosen and rejected, with the same prompt.

    A real pair of a source is used and counted. For other conversations the rejected answer is the
    last assistant turn with its words in other places; ``pairs="real"`` leaves them out.
    ``over_length`` and ``limit`` as for ``sft_cache``.
    """
    key = _row_key("dpo", conversations, tokenizer, max_len, over_length, limit)
    key["rejected"] = f"real (counted), else units shuffled, version {SYNTHETIC_VERSION}"
    if pairs not in get_args(Pairs):
        raise ValueError(f"pairs is {pairs!r}; expected one of {get_args(Pairs)}")
    key["pairs"] = pairs

    def left_out(rows: Rows) -> dict[str, Flags]:
        return {NOT_REAL: ~conversations.real_pairs(rows)} if pairs == "real" else {}

    def fit(template: Template, batch: ConversationBatch) -> Fitted:
        fitted = dpo_rows(template, with_rejected(batch), max_len, over_length)
        real, kept = batch.prompt > 0, fitted.kept
        flags = {**fitted.flags, REAL: kept & real, MADE: kept & ~real}
        return fitted._replace(flags=flags, more=(real[kept],))

    return _row_cache("dpo", options, conversations, tokenizer, key, (left_out, fit))


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
    rules: Rules,
) -> Cache:
    count, limit = len(conversations), int(key["limit"])
    order = functools.partial(selection.sample, count, limit, 0, "limit", kind)
    names = tuple(file.name for file in row_files(kind, int(key["max_len"])).all)
    encode = RowEncoder(conversations, order, tokenizer, names, rules)
    total = selection.sample_size(count, limit)
    spec = CacheSpec(kind, key, names, total, BATCHES[kind], encode, encode.use_reference)
    cache = open_or_build(options, spec)
    _warn_of_losses(cache, kind)
    return cache


def _warn_of_losses(cache: Cache, kind: Kind) -> None:
    key = cache.record.key
    for name, counts in cache.counts.items():
        seen, lost = counts[SEEN], counts[TOO_LONG]
        if lost > WARN_SHARE * seen:
            other = " or choose over_length='truncate_turns'" * (key["over_length"] == "drop")
            _log.warning(
                "%s: %s of %s conversations of %s are longer than max_len %s and were left out; "
                "raise max_len%s",
                *(kind, f"{lost:,}", f"{seen:,}", name, key["max_len"], other),
            )
