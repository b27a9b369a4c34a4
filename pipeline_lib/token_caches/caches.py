"""The three token caches of the chat path: their encoders and their keys.

A conversation that is left out is counted under a reason, for each source. A stream does not depend
on the width of the windows that are cut from it, so its key has no width.
"""

import functools
import logging
from typing import Literal, NamedTuple, get_args

from pipeline_lib import selection
from pipeline_lib.chat.mixture import Mixture
from pipeline_lib.chat.store import ConversationBatch, Conversations, content_digest
from pipeline_lib.chat.synthetic_rejections import SYNTHETIC_VERSION, with_rejected
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.keyed_folder import Key
from pipeline_lib.templates.chat_format import ChatFormat, chat_format
from pipeline_lib.token_caches.build import Cache, CacheSpec, open_or_build
from pipeline_lib.token_caches.coders import Coder
from pipeline_lib.token_caches.encoders import SEEN, RowEncoder, Rows, Rules, StreamEncoder
from pipeline_lib.token_caches.fitted import (
    TOO_LONG,
    Fitted,
    Flags,
    OverLength,
    check_over_length,
)
from pipeline_lib.token_caches.layout import STREAM, Kind, row_files
from pipeline_lib.token_caches.row_cache import RowCache, fit_rows
from pipeline_lib.tokenization.tokenizer import Tokenizer

FORMAT_VERSION = 4
BATCHES: dict[Kind, int] = {"pretrain": 2_000, "sft": 500, "dpo": 500}
"""Conversations in one write batch."""
DOCUMENT = "document"
NOT_REAL = "no real pair"
Pairs = Literal["real", "all"]
Coding = tuple[Tokenizer, ChatFormat]
WARN_SHARE = 0.05
"""If more than this share of the conversations of a source is too long, the log warns."""
_log = logging.getLogger(__name__)


def pretrain_cache(
    options: CacheOptions,
    mixture: Mixture,
    tokenizer: Tokenizer,
    *,
    limit: int = -1,
    form: ChatFormat | None = None,
) -> Cache:
    """The token stream of a mixture.

    ``limit``: use only the first conversations of its index; -1 uses all. ``form``: the chat
    format; None takes that of the tokenizer.
    """
    form = form or chat_format(tokenizer)
    index = mixture.index if limit == -1 else mixture.index[:limit]
    key = _key("pretrain", tokenizer, form) | {
        "limit": limit,
        "limit_selects": "first of the mixture's seeded order",
        "texts_fp": mixture.fingerprint,
    }
    encode = StreamEncoder(mixture.conversations, lambda: index, tokenizer, form)
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
    form: ChatFormat | None = None,
) -> RowCache:
    """Rows (ids, loss mask) of all conversations, and which of them fit ``max_len``.

    ``over_length``: the rule for longer conversations (see ``fitting``). ``limit``: use a seeded
    sample of the conversations; -1 uses all. ``documents``: whether texts that answer nobody are
    used as well; they are counted either way. ``form``: as for ``pretrain_cache``.
    """
    form = form or chat_format(tokenizer)
    fit = _Width(max_len, over_length)
    key = _row_key("sft", conversations, (tokenizer, form), fit, limit)
    key["documents"] = documents

    def left_out(rows: Rows) -> dict[str, Flags]:
        return {} if documents else {DOCUMENT: conversations.documents(rows)}

    def make(coder: Coder, batch: ConversationBatch) -> Fitted:
        return coder.sft(batch, fit.at_build)

    return _row_cache("sft", options, conversations, (tokenizer, form), key, fit, (left_out, make))


def dpo_cache(
    options: CacheOptions,
    conversations: Conversations,
    tokenizer: Tokenizer,
    *,
    max_len: int,
    over_length: OverLength = "drop",
    limit: int = -1,
    pairs: Pairs = "all",
    form: ChatFormat | None = None,
) -> RowCache:
    """Two rows for each pair, chosen and rejected, with the same prompt; and which fit ``max_len``.

    A real pair of a source is used and counted. For other conversations the rejected answer is the
    last assistant turn with its words in other places; ``pairs="real"`` leaves them out.
    ``over_length``, ``limit`` and ``form`` as for ``sft_cache``.
    """
    form = form or chat_format(tokenizer)
    fit = _Width(max_len, over_length)
    key = _row_key("dpo", conversations, (tokenizer, form), fit, limit)
    key["rejected"] = f"real (counted), else units shuffled, version {SYNTHETIC_VERSION}"
    if pairs not in get_args(Pairs):
        raise ValueError(f"pairs is {pairs!r}; expected one of {get_args(Pairs)}")
    key["pairs"] = pairs

    def left_out(rows: Rows) -> dict[str, Flags]:
        return {NOT_REAL: ~conversations.real_pairs(rows)} if pairs == "real" else {}

    def make(coder: Coder, batch: ConversationBatch) -> Fitted:
        made = coder.dpo(with_rejected(batch), fit.at_build)
        made.records["real"] = batch.prompt[made.owner] > 0
        return made

    return _row_cache("dpo", options, conversations, (tokenizer, form), key, fit, (left_out, make))


def _key(kind: Kind, tokenizer: Tokenizer, form: ChatFormat) -> Key:
    return {
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "tok_sha": tokenizer.sha256,
        **form.key(tokenizer),
    }


class _Width(NamedTuple):
    """The width of rows, and the rule for what is longer."""

    max_len: int
    over_length: OverLength

    @property
    def at_build(self) -> int | None:
        """The width, where it decides what is stored."""
        return self.max_len if self.over_length == "truncate_turns" else None


def _row_key(
    kind: Kind, conversations: Conversations, coding: Coding, fit: _Width, limit: int
) -> Key:
    check_over_length(fit.over_length)
    if fit.max_len < 1:
        raise ValueError(f"max_len is {fit.max_len}; expected a number of tokens above 0")
    return _key(kind, *coding) | {
        "turns_dropped_to_fit": fit.at_build,
        "raw_fp": content_digest(conversations.fingerprints),
        "limit": limit,
        "limit_selects": f"seeded sample {selection.SELECTION_VERSION}",
    }


def _row_cache(
    kind: Kind,
    options: CacheOptions,
    conversations: Conversations,
    coding: Coding,
    key: Key,
    fit: _Width,
    rules: Rules,
) -> RowCache:
    count, limit = len(conversations), int(key["limit"])
    order = functools.cache(functools.partial(selection.sample, count, limit, 0, "limit", kind))
    files, total = row_files(kind), selection.sample_size(count, limit)
    encode = RowEncoder(conversations, order, *coding, files, rules)
    names = tuple(file.name for file in files.all)
    spec = CacheSpec(kind, key, names, total, BATCHES[kind], encode, encode.use_reference)

    def source_numbers(numbers: Rows) -> Rows:
        return conversations.source_numbers(order()[numbers])

    whole = open_or_build(options, spec)
    sources = list(conversations.counts)
    cache = fit_rows(options, whole, kind, sources, source_numbers, *fit)
    _warn_of_losses(cache, fit)
    return cache


def _warn_of_losses(cache: RowCache, fit: _Width) -> None:
    for name, counts in cache.counts.items():
        seen, lost = counts[SEEN], counts.get(TOO_LONG, 0)
        if lost > WARN_SHARE * seen:
            other = " or choose over_length='truncate_turns'" * (fit.over_length == "drop")
            _log.warning(
                "%s: %s of %s conversations of %s are longer than max_len %s and were left out; "
                "raise max_len%s",
                *(cache.kind, f"{lost:,}", f"{seen:,}", name, fit.max_len, other),
            )
