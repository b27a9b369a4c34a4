"""The fast encoder gives the ids of the reference, or is not used."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from corpora import EOS, texts, tokenizer_bytes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizer_kinds import (
    BYTE_LEVEL,
    FOREIGN,
    GPT4_SPLIT,
    NORMALISED,
    O200K_SPLIT,
    SOME,
    gpt4,
    split_pre_tokenizer,
    tokenizer_json,
    word_end_tokenizer,
    word_level,
)
from tokenizers import Tokenizer, pre_tokenizers

from pipeline_lib.errors import EncoderMismatch
from pipeline_lib.tokenization.equality import choose_encoder, compare, confirm
from pipeline_lib.tokenization.fast import FastEncoder
from pipeline_lib.tokenization.reference import Encoded, ReferenceEncoder


@pytest.fixture(scope="module", params=BYTE_LEVEL, ids=lambda make: make.__name__)
def encoders(request: pytest.FixtureRequest) -> tuple[ReferenceEncoder, FastEncoder]:
    data = tokenizer_json(request.param)
    return ReferenceEncoder(data), FastEncoder(data)


def test_the_fast_encoder_is_chosen_for_byte_level_tokenizers(
    encoders: tuple[ReferenceEncoder, FastEncoder],
) -> None:
    assert choose_encoder(encoders[0], "gigatoken").name == "gigatoken"
    assert choose_encoder(encoders[0], "auto").version == encoders[1].version


PIECES = st.sampled_from(
    [" ", "  ", "    ", "\n", "\n\n\n", "\t", "'s", "'LL", "é", "e\u0301", "語", "ไ", "👩‍👧", "1",
     "²", EOS, "<|a|>", "def ", "\u00a0", "\u2028", "\ufeff", "\x00", "I", "ß", "?", "==", "_"]
)  # fmt: skip
TEXTS = st.lists(st.text(max_size=8) | PIECES, max_size=12).map("".join)


@given(found=st.lists(TEXTS, min_size=1, max_size=6))
@example(found=["", " ", "a" * 5_000, " " * 5_000, "\n" * 999])
@settings(max_examples=150)
def test_both_encoders_agree_on_random_texts(
    encoders: tuple[ReferenceEncoder, FastEncoder], found: list[str]
) -> None:
    compare(*encoders, [text.encode() for text in found])


def every_character(first: int, stop: int) -> Iterator[list[bytes]]:
    return around(range(first, stop))


def around(places: Iterable[int]) -> Iterator[list[bytes]]:
    points = [n for n in places if not 0xD800 <= n < 0xE000]
    for start in range(0, len(points), 4_000):
        found = map(chr, points[start : start + 4_000])
        yield [f" the{c}of A{c}a 1{c}2 .{c}.".encode() for c in found]


def at_a_change_of_class(point: int) -> bool:
    """Whether a neighbour has another class; inside of a range of one class, one in eight."""
    classes = {unicodedata.category(chr(max(n, 0))) for n in (point - 1, point, point + 1)}
    return len(classes) > 1 or point % 8 == 0


def test_both_encoders_cut_words_alike_at_every_change_of_class() -> None:
    data = word_end_tokenizer(pre_tokenizers.ByteLevel(add_prefix_space=False))
    reference, fast = ReferenceEncoder(data), FastEncoder(data)
    points = [*filter(at_a_change_of_class, range(1, 0x34_000)), *range(0xE0_000, 0xE0_200)]
    for found in around(points):
        right, given = reference.encode(found), fast.encode(found)
        assert np.array_equal(right.ids, given.ids)


@pytest.mark.long
@pytest.mark.parametrize("pattern", [None, GPT4_SPLIT, O200K_SPLIT], ids=["gpt2", "gpt4", "o200k"])
def test_both_encoders_cut_words_alike_at_every_character_there_is(pattern: str | None) -> None:
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False)
    data = word_end_tokenizer(whole if pattern is None else split_pre_tokenizer(pattern))
    reference, fast = ReferenceEncoder(data), FastEncoder(data)
    for found in every_character(1, 0x110_000):
        assert np.array_equal(reference.encode(found).ids, fast.encode(found).ids)


@pytest.mark.parametrize("make", FOREIGN, ids=lambda make: make.__name__)
def test_a_tokenizer_of_another_family_falls_back_or_agrees(
    make: Callable[[], Tokenizer], caplog: pytest.LogCaptureFixture
) -> None:
    reference = ReferenceEncoder(tokenizer_json(make))
    documents = [text.encode() for text in texts(20)]
    chosen = choose_encoder(reference)
    chosen = confirm(reference, chosen, "auto", documents, chosen.encode(documents))
    if chosen is reference:
        assert "using the reference encoder, which is much slower" in caplog.text
    compare(reference, chosen, [text.encode() for text in texts(400, 1_000)])


@pytest.mark.parametrize("make", NORMALISED)
def test_a_normalizer_or_a_prefix_space_is_honoured_or_falls_back(
    make: Callable[[], Tokenizer],
) -> None:
    reference = ReferenceEncoder(tokenizer_json(make))
    chosen = choose_encoder(reference)
    compare(reference, chosen, [text.encode() for text in SOME])


def test_a_tokenizer_the_fast_encoder_can_not_do_is_an_error_when_it_is_demanded() -> None:
    with pytest.raises(EncoderMismatch, match=r"gigatoken can not be used here: .*; choose --enc"):
        choose_encoder(ReferenceEncoder(tokenizer_json(word_level)), "gigatoken")


def test_the_reference_is_used_when_it_is_asked_for() -> None:
    reference = ReferenceEncoder(tokenizer_bytes())
    assert choose_encoder(reference, "tokenizers") is reference


def test_an_unknown_kind_of_encoder_is_a_wrong_argument() -> None:
    with pytest.raises(ValueError, match="encoder is 'fast'; choose one of auto, gigatoken, tok"):
        choose_encoder(ReferenceEncoder(tokenizer_bytes()), "fast")


def test_a_mismatch_shows_both_ids_and_the_text() -> None:
    one, other = ReferenceEncoder(tokenizer_bytes()), ReferenceEncoder(tokenizer_json(gpt4))
    with pytest.raises(EncoderMismatch, match=r"gives \[.*\]... where .* gives .* text b'the rive"):
        compare(one, other, [b"a", b"the river"])


def test_where_all_documents_are_long_their_beginnings_are_compared() -> None:
    long = [b"the river " * 10_000]
    reference, fast = ReferenceEncoder(tokenizer_bytes()), FastEncoder(tokenizer_bytes())
    assert confirm(reference, fast, "auto", long, fast.encode(long)) is fast
    other = FastEncoder(tokenizer_json(gpt4))
    assert confirm(reference, other, "auto", long, other.encode(long)) is reference


def test_ids_of_the_first_documents_that_differ_mean_the_reference(
    caplog: pytest.LogCaptureFixture,
) -> None:
    documents = [b"the river", b"stone"]
    reference, fast = ReferenceEncoder(tokenizer_bytes()), FastEncoder(tokenizer_bytes())
    ids, offsets = fast.encode(documents)
    wrong = Encoded(np.append(ids[:-1], ids[-1] + 1), offsets)
    assert confirm(reference, fast, "auto", documents, wrong) is reference
    assert "b'stone'" in caplog.text
