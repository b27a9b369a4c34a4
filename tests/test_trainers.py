"""Training: one result for the same texts, whichever trainer, and no harm from long runs."""

import itertools
import json
import random
import time
from collections.abc import Iterator

import gigatoken
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_lib import trainers
from pipeline_lib.chat import CONTROL_TOKENS
from pipeline_lib.encoders import NASTY
from pipeline_lib.trainers import LONGEST, Corpus, Trained, cut_runs, train_bpe, train_reference

LETTERS = "eeeeaaoinshrdlcumwfgypbvkjxqz"


def texts(count: int, seed: int = 1) -> Iterator[str]:
    """Made-up words, so many that a vocabulary of some thousand does not exhaust them."""
    dice = random.Random(seed)
    words = ["".join(dice.choices(LETTERS, k=dice.randint(1, 9))) for _ in range(4_000)]
    for number in range(count):
        yield " ".join(dice.choices(words, k=60)) + f", {number}.\n"


@pytest.fixture
def small_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainers, "PROBE_BYTES", 20_000)


def reference(given_texts: list[str], vocab_size: int) -> bytes:
    pieces = (piece.encode() for text in given_texts for piece in cut_runs(text))
    return train_reference(pieces, vocab_size, CONTROL_TOKENS)


def trained(given_texts: list[str], vocab_size: int) -> Trained:
    return train_bpe(iter(given_texts), vocab_size, CONTROL_TOKENS)


@pytest.mark.usefixtures("small_probe")
@pytest.mark.parametrize("vocab_size", [261, 262, 900, 1_900])
def test_the_fast_trainer_gives_the_reference_file(vocab_size: int) -> None:
    awkward = [text.decode() for text in NASTY] + ["a\x00b \x00\x00", "aaaab" * 40, "ab" * 90]
    corpus = [*texts(300), *awkward, *CONTROL_TOKENS, *texts(300, seed=2)]
    made = trained(corpus, vocab_size)
    assert made.trainer == "gigatoken"
    assert made.json == reference(corpus, vocab_size)
    assert (made.texts, made.cuts) == (len(corpus), 1)


@pytest.mark.usefixtures("small_probe")
@pytest.mark.parametrize("beyond", [0, 1, 5, 900])
def test_texts_that_run_out_of_pairs_are_trained_by_the_reference(
    beyond: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = [f"There are {n % 90 + 10} kinds of it, or {n % 7}." for n in range(2_000)]
    most = len(json.loads(reference(corpus, 5_000))["model"]["vocab"])
    for has_words in (trainers._has_words, lambda *_: True):
        monkeypatch.setattr(trainers, "_has_words", has_words)
        made = trained(corpus, most + beyond)
        assert made.json == reference(corpus, most + beyond)
    assert made.trainer == ("tokenizers" if beyond else "gigatoken")
    assert ("the texts do not have" in caplog.text) == (beyond > 0)


@pytest.mark.usefixtures("small_probe")
def test_another_order_of_merges_means_the_reference(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    true_train = gigatoken.train_bpe

    def otherwise(*arguments: object, **more: object) -> object:
        vocabulary, merges = true_train(*arguments, **more)  # type: ignore[arg-type]
        return vocabulary, [*merges[:30], merges[31], merges[30], *merges[32:]]

    monkeypatch.setattr(gigatoken, "train_bpe", otherwise)
    corpus = list(texts(400))
    made = trained(corpus, 600)
    assert (made.trainer, made.json) == ("tokenizers", reference(corpus, 600))
    assert "gigatoken's merge 30 is" in caplog.text


def test_a_small_corpus_is_not_worth_a_proof() -> None:
    corpus = list(texts(50))
    made = trained(corpus, 400)
    assert (made.trainer, made.json) == ("tokenizers", reference(corpus, 400))


@pytest.mark.parametrize("threads", ["1", "2"])
def test_training_gives_the_same_file_for_any_number_of_threads(
    threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYON_RS_NUM_THREADS", threads)
    first = trained(list(texts(200)), 400)
    assert first == trained(list(texts(200)), 400)
    fields = json.loads(first.json)
    found = [(token["id"], token["content"]) for token in fields["added_tokens"]]
    assert found == list(enumerate(CONTROL_TOKENS))
    assert len(fields["model"]["vocab"]) == 400


def runs(text: str) -> list[int]:
    return [len(list(group)) for _, group in itertools.groupby(text, str.isspace)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", " ", "\n", "é"]), st.integers(0, 3 * LONGEST)), max_size=6
    )
)
def test_long_runs_are_cut_and_nothing_is_lost(parts: list[tuple[str, int]]) -> None:
    text = "".join(letter * times for letter, times in parts)
    pieces = cut_runs(text)
    assert "".join(pieces) == text
    assert all(run <= LONGEST for piece in pieces for run in runs(piece))
    assert len(pieces) == 1 or max(runs(text)) > LONGEST


@given(
    parts=st.lists(
        st.tuples(
            st.sampled_from(["a", "\u00e9", "\u65e5", "\x7f", " ", "\n", "\x1f", "\u3000", "\xa0"]),
            st.integers(0, LONGEST + 2),
        ),
        max_size=5,
    )
)
def test_a_corpus_cuts_its_texts_as_they_would_be_cut_alone(parts: list[tuple[str, int]]) -> None:
    text = "".join(character * count for character, count in parts)
    corpus = Corpus([text, "next"])
    assert corpus.cuts == len(cut_runs(text)) - 1
    ended = [piece.encode() + b"\xff" for piece in [*cut_runs(text), "next"]]
    assert corpus.data == b"".join(ended)


@settings(deadline=None)
@given(st.lists(st.text(max_size=30), max_size=20), st.integers(1, 200))
def test_the_corpus_gives_every_piece_back_in_blocks_of_any_size(
    given_texts: list[str], size: int
) -> None:
    corpus = Corpus(given_texts)
    pieces = [piece.decode() for block in corpus.blocks(size) for piece in block]
    assert pieces == given_texts
    assert corpus.start(size) == [text.encode() for text in given_texts][: len(corpus.start(size))]


def test_text_without_spaces_costs_little_time_and_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dice = random.Random(5)
    unbroken = "".join(dice.choices(LETTERS.upper() + LETTERS, k=300_000))
    han = "".join(chr(0x4E00 + (i * 7_919) % 5_000) for i in range(66_000))
    start = time.monotonic()
    with caplog.at_level("INFO"):
        made = trained([unbroken, han, " " * 100_000, "Plain words here. " * 2_000], 2_000)
    assert time.monotonic() - start < 10
    assert made.cuts == sum((size - 1) // LONGEST for size in (300_000, 66_000, 100_000))
    assert f"{made.cuts:,} cuts in runs over {LONGEST} characters" in caplog.text
    assert max(map(len, json.loads(made.json)["model"]["vocab"])) <= 4 * LONGEST


@pytest.mark.usefixtures("small_probe")
def test_the_trainer_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert trained(list(texts(200)), 300).trainer == "gigatoken"
    assert capfd.readouterr() == ("", "")
