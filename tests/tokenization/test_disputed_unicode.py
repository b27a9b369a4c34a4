"""Characters whose class depends on the age of a Unicode table are found, and only those."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizer_kinds import NORMALISED, tokenizer_json
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from pipeline_lib.tokenization.byte_symbols import BYTE_SYMBOLS
from pipeline_lib.tokenization.disputed_unicode import DISPUTED, DISPUTED_IN_NFC, is_disputed
from pipeline_lib.tokenization.equality import compare
from pipeline_lib.tokenization.fast import FastEncoder
from pipeline_lib.tokenization.reference import ReferenceEncoder

ALL = [point for first, last in DISPUTED for point in range(first, last + 1)]


def test_every_disputed_character_is_found_anywhere_in_a_text() -> None:
    for point in ALL:
        for text in (chr(point), f"abc {chr(point)}", f"\u00e9{chr(point)}\U0001f600" * 3):
            assert is_disputed(text.encode()), hex(point)


def test_their_neighbours_are_not_disputed() -> None:
    known = set(ALL)
    for point in {p + step for p in ALL for step in (-1, 1)} - known:
        assert not is_disputed(f"a{chr(point)}b".encode()), hex(point)


@given(st.text(max_size=30))
def test_a_text_is_disputed_exactly_if_it_holds_such_a_character(text: str) -> None:
    assert is_disputed(text.encode()) == any(ord(character) in set(ALL) for character in text)


@pytest.mark.parametrize(
    "text", ["", "plain", "na\u00efve", "\u65e5\u672c", "\U0001f469", "\u0915"]
)
def test_common_scripts_and_emoji_are_not_disputed(text: str) -> None:
    assert not is_disputed(text.encode())


def test_the_spans_are_in_order_and_apart() -> None:
    flat = [point for span in DISPUTED for point in span]
    assert flat == sorted(flat) and all(first <= last for first, last in DISPUTED)


MARKED = {point for a, b in DISPUTED_IN_NFC for point in range(a, b + 1)}
AROUND = ("a{}", "a\u0315{}", "a{}\u0334", "a{}\u0327\u0301", "\u0915{}", "a\u0345{}\u0300")
COMPOSING = ("{}\u0307", "{}\u0301", "{}\u0308", "{}\u0323", "{}\u0338")


def unlike_in_nfc(texts: list[str]) -> list[str]:
    """Texts that the two libraries put into NFC differently; ids are bytes, so nothing hides it."""
    names = {symbol: byte for byte, symbol in enumerate(BYTE_SYMBOLS)}
    tokenizer = Tokenizer(models.BPE(vocab=names, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.normalizer = normalizers.NFC()
    data = tokenizer.to_str().encode()
    reference, fast = ReferenceEncoder(data), FastEncoder(data)
    right = reference.tokenizer.normalizer.normalize_str("\n".join(texts)).encode()
    ids, offsets = fast.encode([text.encode() for text in texts])
    given = [part.astype(np.uint8).tobytes() for part in np.split(ids, offsets[1:-1])]
    both = zip(texts, right.split(b"\n"), given, strict=True)
    return [text for text, one, other in both if one != other]


def in_contexts(points: Iterable[int], contexts: Iterable[str]) -> list[str]:
    there = [chr(point) for point in points if not 0xD800 <= point < 0xE000]
    return [context.format(character) for context in contexts for character in there]


def unguarded(texts: list[str]) -> list[str]:
    return [text for text in unlike_in_nfc(texts) if MARKED.isdisjoint(map(ord, text))]


def test_a_mark_that_the_libraries_put_into_nfc_differently_is_guarded() -> None:
    near = {point + step for point in MARKED for step in range(-3, 4)}
    points = [*range(0x80, 0x3100), *(point for point in near if point > 0x80)]
    unlike = unlike_in_nfc(in_contexts(points, AROUND))
    assert {"a\u0c3c\u0334", "a\u0315\u08d3"} <= set(unlike)  # Telugu nukta, a Quranic mark
    assert not [text for text in unlike if MARKED.isdisjoint(map(ord, text))]


def test_parts_of_newer_composed_characters_are_guarded() -> None:
    for start in (0x10580, 0x11380, 0x11900, 0x16100, 0x16D00):
        block = range(start, start + 0x80)
        pairs = [chr(one) + chr(other) for one in block for other in block]
        assert not unguarded(pairs)
        assert not unguarded(in_contexts(block, COMPOSING))


def test_a_guarded_text_gets_the_ids_of_the_reference() -> None:
    data = tokenizer_json(NORMALISED[1])
    reference, fast = ReferenceEncoder(data), FastEncoder(data, composes=True)
    texts = [text.encode() for text in in_contexts(sorted(MARKED)[::40], AROUND)]
    compare(reference, fast, texts)


@pytest.mark.long
def test_every_character_that_nfc_treats_differently_is_guarded() -> None:
    points = [point for point in range(0x80, 0x110000) if point != 0x0A]
    for start in range(0, len(points), 50_000):
        part = points[start : start + 50_000]
        assert not unguarded(in_contexts(part, AROUND + COMPOSING))
    for start in [*range(0x10000, 0x17000, 0x100), *range(0x1D000, 0x1F000, 0x100)]:
        block = range(start, start + 0x100)
        assert not unguarded([chr(one) + chr(other) for one in block for other in block])
