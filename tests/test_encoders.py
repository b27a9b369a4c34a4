"""The fast encoder gives the ids of the reference, or is not used."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from corpora import EOS, texts, tokenizer_bytes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from pipeline_lib import encoders
from pipeline_lib import trainers as trainers_module
from pipeline_lib.encoders import (
    NASTY,
    FastEncoder,
    ReferenceEncoder,
    choose_encoder,
    compare,
    confirm,
    open_reference,
)
from pipeline_lib.errors import EncoderMismatch, TokenizerError

GPT4_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SOME = [*texts(300), *(text.decode() for text in NASTY), "    if x:\n        return '''a'''\n" * 5]


def bpe(pre_tokenizer: Any, *, normalizer: Any = None, vocab_size: int = 600) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[EOS], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    made.train_from_iterator(SOME, trainer)
    return made


def gpt2() -> Tokenizer:
    return bpe(pre_tokenizers.ByteLevel(add_prefix_space=False))


def gpt4() -> Tokenizer:
    split = pre_tokenizers.Split(Regex(GPT4_SPLIT), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return bpe(pre_tokenizers.Sequence([split, level]))


def with_runs_of_spaces() -> Tokenizer:
    """Added tokens that are ordinary text, stored behind a special one, as some models have."""
    made = gpt2()
    runs = [AddedToken(" " * n, normalized=True, special=False) for n in (24, 12, 6, 3, 2)]
    made.add_tokens([*runs, AddedToken("\n\n\n", special=False)])
    return made


def specials_before_ordinary() -> Tokenizer:
    made = gpt2()
    made.add_special_tokens(["<|a|>", "<|b|>"])
    made.add_tokens([AddedToken("def ", special=False), AddedToken("    ", special=False)])
    made.add_special_tokens(["<|c|>"])
    return made


def word_level() -> Tokenizer:
    words = {word: n for n, word in enumerate([EOS, "<unk>", "the", "of", "river", "stone"])}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens([EOS])
    return made


def word_piece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer, made.normalizer = pre_tokenizers.BertPreTokenizer(), normalizers.Lowercase()
    made.train_from_iterator(
        SOME, trainers.WordPieceTrainer(vocab_size=400, special_tokens=["[UNK]", EOS])
    )
    return made


def sentencepiece_bpe() -> Tokenizer:
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    special = ["<unk>", EOS, *(f"<0x{n:02X}>" for n in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    made.train_from_iterator(SOME, trainer)
    return made


def unigram() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>", EOS], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(texts(300), trainer)
    return made


BYTE_LEVEL = [gpt2, gpt4, with_runs_of_spaces, specials_before_ordinary]
FOREIGN = [word_level, word_piece, sentencepiece_bpe, unigram]
NORMALISED = [
    lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFC()),
    lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFKC()),
]


def json_of(make: Callable[[], Tokenizer]) -> bytes:
    return str(make().to_str()).encode()


@pytest.fixture(scope="module", params=BYTE_LEVEL, ids=lambda make: make.__name__)
def pair(request: pytest.FixtureRequest) -> tuple[ReferenceEncoder, FastEncoder]:
    data = json_of(request.param)
    return ReferenceEncoder(data), FastEncoder(data)


def test_the_fast_encoder_is_chosen_for_byte_level_tokenizers(
    pair: tuple[ReferenceEncoder, FastEncoder],
) -> None:
    assert choose_encoder(pair[0], "gigatoken").name == "gigatoken"
    assert choose_encoder(pair[0], "auto").version == pair[1].version


PIECES = st.sampled_from(
    [" ", "  ", "    ", "\n", "\n\n\n", "\t", "'s", "'LL", "é", "e\u0301", "語", "ไ", "👩‍👧", "1",
     "²", EOS, "<|a|>", "def ", "\u00a0", "\u2028", "\ufeff", "\x00", "I", "ß", "?", "==", "_"]
)  # fmt: skip
TEXTS = st.lists(st.text(max_size=8) | PIECES, max_size=12).map("".join)


@given(found=st.lists(TEXTS, min_size=1, max_size=6))
@example(found=["", " ", "a" * 5_000, " " * 5_000, "\n" * 999])
@settings(max_examples=150, deadline=None)
def test_both_encoders_agree_on_random_texts(
    pair: tuple[ReferenceEncoder, FastEncoder], found: list[str]
) -> None:
    compare(*pair, [text.encode() for text in found])


def telling(pre_tokenizer: Any) -> bytes:
    """A tokenizer whose merges show where a word ends: an ASCII letter, digit or dot joins the
    first byte of whatever character stands behind it in the same word."""
    symbols = dict(enumerate(trainers_module._byte_symbols()))
    vocabulary = {symbol: byte for byte, symbol in symbols.items()}
    merges = [(left, symbols[lead]) for left in "eA1." for lead in range(0xC2, 0xF5)]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer, made.decoder = pre_tokenizer, decoders.ByteLevel()
    made.add_special_tokens([EOS])
    return str(made.to_str()).encode()


def every_character(first: int, stop: int) -> Iterator[list[bytes]]:
    points = [n for n in range(first, stop) if not 0xD800 <= n < 0xE000]
    for start in range(0, len(points), 4_000):
        found = map(chr, points[start : start + 4_000])
        yield [f" the{c}of A{c}a 1{c}2 .{c}.".encode() for c in found]


def split_by(pattern: str) -> Any:
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, level])


def test_both_encoders_cut_words_alike_at_every_character_that_has_a_class() -> None:
    data = telling(pre_tokenizers.ByteLevel(add_prefix_space=False))
    reference, fast = ReferenceEncoder(data), FastEncoder(data)
    for found in [*every_character(1, 0x34_000), *every_character(0xE0_000, 0xE0_200)]:
        right, given = reference.encode(found), fast.encode(found)
        assert np.array_equal(right.ids, given.ids)


@pytest.mark.long
@pytest.mark.parametrize("pattern", [None, GPT4_SPLIT, O200K_SPLIT], ids=["gpt2", "gpt4", "o200k"])
def test_both_encoders_cut_words_alike_at_every_character_there_is(pattern: str | None) -> None:
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False)
    data = telling(whole if pattern is None else split_by(pattern))
    reference, fast = ReferenceEncoder(data), FastEncoder(data)
    for found in every_character(1, 0x110_000):
        assert np.array_equal(reference.encode(found).ids, fast.encode(found).ids)


def test_a_text_with_letters_that_only_one_library_knows_keeps_its_place() -> None:
    data = telling(pre_tokenizers.ByteLevel(add_prefix_space=False))
    reference, fast = ReferenceEncoder(data), FastEncoder(data)
    found = [b"", b"the stone", " the\U00032532of".encode(), b"", b"of", "A\ua7cea".encode()]
    right, given = reference.encode(found), fast.encode(found)
    assert given.ids.tolist() == right.ids.tolist()
    assert given.offsets.tolist() == right.offsets.tolist()


@pytest.mark.parametrize("make", FOREIGN, ids=lambda make: make.__name__)
def test_a_tokenizer_of_another_family_falls_back_or_agrees(
    make: Callable[[], Tokenizer], caplog: pytest.LogCaptureFixture
) -> None:
    reference = ReferenceEncoder(json_of(make))
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
    reference = ReferenceEncoder(json_of(make))
    chosen = choose_encoder(reference)
    compare(reference, chosen, [text.encode() for text in SOME])


def test_a_tokenizer_the_fast_encoder_can_not_do_is_an_error_when_it_is_demanded() -> None:
    with pytest.raises(EncoderMismatch, match=r"gigatoken can not be used here: .*; choose --enc"):
        choose_encoder(ReferenceEncoder(json_of(word_level)), "gigatoken")


def test_the_reference_is_used_when_it_is_asked_for() -> None:
    reference = ReferenceEncoder(tokenizer_bytes())
    assert choose_encoder(reference, "tokenizers") is reference


def test_an_unknown_kind_of_encoder_is_a_wrong_argument() -> None:
    with pytest.raises(ValueError, match="encoder is 'fast'; choose one of auto, gigatoken, tok"):
        choose_encoder(ReferenceEncoder(tokenizer_bytes()), "fast")


def test_no_texts_give_no_ids() -> None:
    for encoder in (ReferenceEncoder(tokenizer_bytes()), FastEncoder(tokenizer_bytes())):
        ids, offsets = encoder.encode([])
        assert len(ids) == 0 and offsets.tolist() == [0]
        assert (ids.dtype, offsets.dtype) == (np.uint32, np.int64)


def test_empty_texts_keep_their_place() -> None:
    for encoder in (ReferenceEncoder(tokenizer_bytes()), FastEncoder(tokenizer_bytes())):
        offsets = encoder.encode([b"", b"the", b""]).offsets.tolist()
        assert offsets[:2] == [0, 0] and offsets[2] == offsets[3] > 0


def test_the_text_of_a_special_token_is_encoded_as_text() -> None:
    for encoder in (ReferenceEncoder(tokenizer_bytes()), FastEncoder(tokenizer_bytes())):
        ids = encoder.encode([EOS.encode()]).ids.tolist()
        assert len(ids) > 1 and open_reference(tokenizer_bytes()).token_to_id(EOS) not in ids


def test_ordinary_added_tokens_keep_their_meaning() -> None:
    data = json_of(with_runs_of_spaces)
    run = open_reference(data).token_to_id(" " * 12)
    for encoder in (ReferenceEncoder(data), FastEncoder(data)):
        assert run in encoder.encode([b"x" + b" " * 12 + b"y"]).ids.tolist()


def test_callers_in_several_threads_get_their_own_ids_while_the_engine_is_renewed() -> None:
    made = tokenizer_bytes()
    fast = FastEncoder(made, renew_bytes=3_000)
    parts = [[text.encode() for text in texts(40, first=40 * part)] for part in range(24)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fast.encode, parts))
    reference = ReferenceEncoder(made)
    for part, encoded in zip(parts, found, strict=True):
        right = reference.encode(part)
        assert np.array_equal(encoded.ids, right.ids)
        assert np.array_equal(encoded.offsets, right.offsets)


def test_renewing_the_engine_changes_no_id() -> None:
    fast = FastEncoder(tokenizer_bytes(), renew_bytes=50)
    reference = ReferenceEncoder(tokenizer_bytes())
    for text in texts(20):
        compare(reference, fast, [text.encode()])


def test_forgetting_on_demand_renews_the_engine_once_it_has_seen_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoders, "FORGET_BYTES", 30)
    fast, reference = FastEncoder(tokenizer_bytes()), ReferenceEncoder(tokenizer_bytes())
    engines = []
    for text in (b"few", b"more than thirty bytes of text", b"again few"):
        compare(reference, fast, [text])
        engines.append(fast._engine)
        fast.forget()
        reference.forget()
    compare(reference, fast, [b"and after it"])
    assert engines[0] is engines[1] is not engines[2] is fast._engine


def test_a_mismatch_shows_both_ids_and_the_text() -> None:
    one, other = ReferenceEncoder(tokenizer_bytes()), ReferenceEncoder(json_of(gpt4))
    with pytest.raises(EncoderMismatch, match=r"gives \[.*\]... where .* gives .* text b'the rive"):
        compare(one, other, [b"a", b"the river"])


def test_what_is_no_tokenizer_says_how_to_make_one() -> None:
    with pytest.raises(TokenizerError, match=r"can not be loaded: .*; export it again"):
        open_reference(b'{"model": {"type": "None of these"}}')


def test_a_normalised_file_loses_its_special_tokens_without_a_second_parse() -> None:
    for data in (json_of(specials_before_ordinary), json_of(with_runs_of_spaces)):
        fields = {**json.loads(data), "post_processor": None}
        for text in (json.dumps(fields), json.dumps(fields, separators=(",", ":"))):
            found = json.loads(encoders._without_special_tokens(text))
            kept = [token for token in fields["added_tokens"] if not token["special"]]
            assert found == {**fields, "added_tokens": kept} and kept


def test_where_all_documents_are_long_their_beginnings_are_compared() -> None:
    long = [b"the river " * 10_000]
    reference, fast = ReferenceEncoder(tokenizer_bytes()), FastEncoder(tokenizer_bytes())
    assert confirm(reference, fast, "auto", long, fast.encode(long)) is fast
    other = FastEncoder(json_of(gpt4))
    assert confirm(reference, other, "auto", long, other.encode(long)) is reference


def test_ids_of_the_first_documents_that_differ_mean_the_reference(
    caplog: pytest.LogCaptureFixture,
) -> None:
    documents = [b"the river", b"stone"]
    reference, fast = ReferenceEncoder(tokenizer_bytes()), FastEncoder(tokenizer_bytes())
    ids, offsets = fast.encode(documents)
    wrong = encoders.Encoded(np.append(ids[:-1], ids[-1] + 1), offsets)
    assert confirm(reference, fast, "auto", documents, wrong) is reference
    assert "b'stone'" in caplog.text
