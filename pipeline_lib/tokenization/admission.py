"""Which tokenizer files the fast encoder may be used for: those whose every feature is on a list.

Probes can not find a difference in texts that nobody thought of. So a file is read feature by
feature, and one feature that is not listed here, or not known here, is enough for the reference.
The test of this module compares both encoders on many texts for each feature on the list, and shows
for each known feature off the list that they do differ there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline_lib.tokenization.byte_symbols import (
    BYTE_SYMBOLS,
    is_spelled,
    is_spelled_pair,
    symbols,
    unspelled,
)

Fields = Mapping[str, Any]  # the form of the file is that of the tokenizers library

_FILE = {"version", "added_tokens", "normalizer", "pre_tokenizer", "model"}
_NO_EFFECT = {"truncation", "padding", "post_processor", "decoder"}
"""Parts that change no id here: both encoders run without them."""
_MODEL = {
    *("type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"),
    *("fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"),
}
_ADDED = {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}
_MOST_PAIRS = 1 << 20

_ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEGIN, _SPACES = r"[^\r\n\p{L}\p{N}]?", r"\s*[\r\n]+|\s+(?!\S)|\s+"
_OTHERS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|"
SPLITS: Mapping[str, tuple[str, ...]] = {
    "gpt2": (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",),
    "llama3": (rf"{_ENGLISH}|{_BEGIN}\p{{L}}+|\p{{N}}{{1,3}}|{_OTHERS}{_SPACES}",),
    "qwen2": (rf"{_ENGLISH}|{_BEGIN}\p{{L}}+|\p{{N}}|{_OTHERS}{_SPACES}",),
    "qwen3.5": (
        rf"{_ENGLISH}|{_BEGIN}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|"
        rf"{_SPACES}",
    ),
    "o200k": (
        rf"{_BEGIN}{_UPPER}*{_LOWER}+{_ENGLISH}?|{_BEGIN}{_UPPER}+{_LOWER}*{_ENGLISH}?|"
        rf"\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}",
    ),
    "nemotron": (
        rf"{_BEGIN}{_UPPER}*{_LOWER}+|{_BEGIN}{_UPPER}+{_LOWER}*|\p{{N}}|"
        rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}",
    ),
    "deepseek3": (
        r"\p{N}{1,3}",
        "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
        "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    ),
}
"""Family of tokenizers -> the patterns by which it cuts a text into words, one after another."""


class Admission(NamedTuple):
    """``obstacle``: the first feature that is not on the list, in words; None if all are.
    ``composes``: texts are put into Unicode's form NFC."""

    obstacle: str | None
    composes: bool


def admission(fields: Fields) -> Admission:
    """Whether the fast encoder may be used for a ``tokenizer.json``, given as its parsed fields."""
    normalizer = fields.get("normalizer")
    found = (
        *_unknown("key", fields.keys() - _FILE - _NO_EFFECT),
        *_model(fields["model"]),
        *_normalizer(normalizer),
        *_pre_tokenizer(fields.get("pre_tokenizer")),
    )
    composes = not found and _composes(normalizer)
    if not found:
        found = tuple(_added(fields.get("added_tokens") or [], composes))
    return Admission(found[0] if found else None, composes)


def _unknown(what: str, names: Iterable[str]) -> Iterable[str]:
    return (f"the {what} {name!r}, which is not known here" for name in sorted(names))


def _model(model: Fields) -> Iterable[str]:
    if model.get("type") != "BPE":
        yield f"a model of type {model.get('type')!r}"
        return
    yield from _unknown("model's key", model.keys() - _MODEL)
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name):
            yield f"{name} {model[name]!r}"
    if model.get("dropout"):
        yield f"dropout {model['dropout']!r}"
    if model.get("byte_fallback"):
        yield "byte_fallback"
    yield from _vocabulary(model["vocab"], bool(model.get("ignore_merges")))
    yield from _merges(model["merges"])


def _vocabulary(vocabulary: Mapping[str, int], ignore_merges: bool) -> Iterable[str]:
    lost = unspelled(BYTE_SYMBOLS, vocabulary)
    if lost:
        yield f"a vocabulary without the byte 0x{lost[0]:02X}"
    if len(set(vocabulary.values())) < len(vocabulary):
        yield "a vocabulary with one id for two tokens"
    for name in (name for name in vocabulary if not is_spelled(name)):
        if ignore_merges:
            yield f"ignore_merges and the token {name!r}, which is not spelled in bytes"
        if symbols(name.encode()) in vocabulary:
            yield f"a vocabulary with two tokens for {name!r}"


def _merges(merges: Sequence[Any]) -> Iterable[str]:
    pairs = [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
    if len(set(pairs)) < len(pairs):
        yield "merges with one pair twice"
    if not all(map(is_spelled_pair, pairs)):
        yield "merges of tokens that are not spelled in bytes"


def _normalizer(normalizer: Fields | None) -> Iterable[str]:
    if normalizer is None:
        return
    kind = normalizer.get("type")
    if kind == "Sequence":
        yield from _unknown("normalizer's key", normalizer.keys() - {"type", "normalizers"})
        for part in normalizer["normalizers"]:
            yield from _normalizer(part)
    elif kind == "NFC":
        yield from _unknown("normalizer's key", normalizer.keys() - {"type"})
    else:
        yield f"a normalizer of type {kind!r}"


def _composes(normalizer: Fields | None) -> bool:
    return normalizer is not None and (
        normalizer["type"] == "NFC" or any(map(_composes, normalizer["normalizers"]))
    )


def _pre_tokenizer(pre_tokenizer: Fields | None) -> Iterable[str]:
    if pre_tokenizer is None:
        yield "no pre-tokenizer"
    elif pre_tokenizer.get("type") != "Sequence":
        yield from _byte_level(pre_tokenizer, use_regex=True)
    else:
        keys = pre_tokenizer.keys() - {"type", "pretokenizers"}
        yield from _unknown("pre-tokenizer's key", keys)
        *splits, last = pre_tokenizer["pretokenizers"] or [{}]
        for split in splits:
            yield from _split(split)
        patterns = tuple((split.get("pattern") or {}).get("Regex") for split in splits)
        if patterns not in SPLITS.values():
            yield f"a pre-tokenizer that splits by {patterns!r}"
        yield from _byte_level(last, use_regex=False)


def _split(split: Fields) -> Iterable[str]:
    if split.get("type") != "Split":
        yield f"a pre-tokenizer of type {split.get('type')!r}"
        return
    yield from _unknown("split's key", split.keys() - {"type", "pattern", "behavior", "invert"})
    if split.get("behavior") != "Isolated" or split.get("invert"):
        yield f"a split with behavior {split.get('behavior')!r}, invert {split.get('invert')!r}"


def _byte_level(part: Fields, use_regex: bool) -> Iterable[str]:
    if part.get("type") != "ByteLevel":
        yield f"a pre-tokenizer of type {part.get('type')!r}"
        return
    known = {"type", "add_prefix_space", "trim_offsets", "use_regex"}
    yield from _unknown("pre-tokenizer's key", part.keys() - known)
    if part.get("add_prefix_space", True):
        yield "add_prefix_space"
    if part.get("use_regex", True) != use_regex:
        yield f"use_regex {not use_regex} there"


def _added(added: Sequence[Fields], composes: bool) -> Iterable[str]:
    contents = [token["content"] for token in added]
    if len(set(contents)) < len(contents) or "" in contents:
        yield "added tokens that are empty or there twice"
    special = [token["content"] for token in added if token.get("special")]
    ordinary = [token for token in added if not token.get("special")]
    for token in ordinary:
        yield from _ordinary(token, composes)
    first = [token["content"] for token in ordinary if not token["normalized"]]
    second = [token["content"] for token in ordinary if token["normalized"]]
    if (len(special) + len(first)) * len(ordinary) > _MOST_PAIRS:
        yield f"{len(ordinary):,} ordinary added tokens, too many to compare with each other"
        return
    yield from _shadowed(special, [*first, *second])
    yield from _shadowed(second, first)


def _ordinary(token: Fields, composes: bool) -> Iterable[str]:
    content = token["content"]
    if token.keys() ^ _ADDED:
        yield f"the added token {content!r} with other keys than {', '.join(sorted(_ADDED))}"
        return
    for flag in ("single_word", "lstrip", "rstrip"):
        if token[flag]:
            yield f"{flag} of the added token {content!r}"
    if composes and (token["normalized"] or not content.isascii()):
        yield f"the added token {content!r} beside a normalizer"


def _shadowed(earlier: Sequence[str], later: Sequence[str]) -> Iterable[str]:
    """Tokens of ``later`` that a match of one of ``earlier`` can hide, wholly or in part.

    The reference looks for special tokens too, and passes over the text of those that it finds.
    """
    for token in later:
        beginnings = tuple(token[:end] for end in range(1, len(token) + 1))
        for other in earlier:
            if token in other or other.endswith(beginnings):
                yield f"the added token {token!r}, which {other!r} can hide"
