"""Training: one result for the same texts, whichever trainer, and no harm from long runs."""

import json
import random
import time
from collections.abc import Iterator

import gigatoken
import pytest

from pipeline_lib.tokenization import bpe_training
from pipeline_lib.tokenization.bpe_training import TrainingResult, train_bpe, train_reference
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.equality import NASTY
from pipeline_lib.tokenization.training_texts import LONGEST, cut_runs

LETTERS = "eeeeaaoinshrdlcumwfgypbvkjxqz"


def random_texts(count: int, seed: int = 1) -> Iterator[str]:
    """Made-up words, so many that a vocabulary of some thousand does not exhaust them."""
    dice = random.Random(seed)
    words = ["".join(dice.choices(LETTERS, k=dice.randint(1, 9))) for _ in range(4_000)]
    for number in range(count):
        yield " ".join(dice.choices(words, k=60)) + f", {number}.\n"


@pytest.fixture
def small_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe_training, "PROBE_BYTES", 20_000)


def reference_json(given_texts: list[str], vocab_size: int) -> bytes:
    pieces = (piece.encode() for text in given_texts for piece in cut_runs(text))
    return train_reference(pieces, vocab_size, CONTROL_TOKENS)


def training_result(given_texts: list[str], vocab_size: int) -> TrainingResult:
    return train_bpe(iter(given_texts), vocab_size, CONTROL_TOKENS)


@pytest.mark.usefixtures("small_probe")
@pytest.mark.parametrize("vocab_size", [261, 262, 900, 1_900])
def test_the_fast_trainer_gives_the_reference_file(vocab_size: int) -> None:
    awkward = [text.decode() for text in NASTY] + ["a\x00b \x00\x00", "aaaab" * 40, "ab" * 90]
    corpus = [*random_texts(300), *awkward, *CONTROL_TOKENS, *random_texts(300, seed=2)]
    result = training_result(corpus, vocab_size)
    assert result.facts.trainer == "gigatoken"
    assert result.json == reference_json(corpus, vocab_size)
    assert (result.facts.texts, result.facts.cuts) == (len(corpus), 1)


@pytest.mark.usefixtures("small_probe")
@pytest.mark.parametrize("beyond", [0, 1, 5, 900])
def test_texts_that_run_out_of_pairs_are_trained_by_the_reference(
    beyond: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = [f"There are {n % 90 + 10} kinds of it, or {n % 7}." for n in range(2_000)]
    most = len(json.loads(reference_json(corpus, 5_000))["model"]["vocab"])
    for has_words in (bpe_training._has_words, lambda *_: True):
        monkeypatch.setattr(bpe_training, "_has_words", has_words)
        result = training_result(corpus, most + beyond)
        assert result.json == reference_json(corpus, most + beyond)
    assert result.facts.trainer == ("tokenizers" if beyond else "gigatoken")
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
    corpus = list(random_texts(400))
    result = training_result(corpus, 600)
    assert (result.facts.trainer, result.json) == ("tokenizers", reference_json(corpus, 600))
    assert "gigatoken's merge 30 is" in caplog.text


def test_a_small_corpus_is_not_worth_a_proof() -> None:
    corpus = list(random_texts(50))
    result = training_result(corpus, 400)
    assert (result.facts.trainer, result.json) == ("tokenizers", reference_json(corpus, 400))


@pytest.mark.parametrize("threads", ["1", "2"])
def test_training_gives_the_same_file_for_any_number_of_threads(
    threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYON_RS_NUM_THREADS", threads)
    first = training_result(list(random_texts(200)), 400)
    assert first == training_result(list(random_texts(200)), 400)
    fields = json.loads(first.json)
    found = [(token["id"], token["content"]) for token in fields["added_tokens"]]
    assert found == list(enumerate(CONTROL_TOKENS))
    assert len(fields["model"]["vocab"]) == 400


def test_text_without_spaces_costs_little_time_and_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dice = random.Random(5)
    unbroken = "".join(dice.choices(LETTERS.upper() + LETTERS, k=300_000))
    han = "".join(chr(0x4E00 + (i * 7_919) % 5_000) for i in range(66_000))
    start = time.monotonic()
    with caplog.at_level("INFO"):
        result = training_result(
            [unbroken, han, " " * 100_000, "Plain words here. " * 2_000], 2_000
        )
    assert time.monotonic() - start < 10
    assert result.facts.cuts == sum((size - 1) // LONGEST for size in (300_000, 66_000, 100_000))
    assert f"{result.facts.cuts:,} cuts in runs over {LONGEST} characters" in caplog.text
    assert max(map(len, json.loads(result.json)["model"]["vocab"])) <= 4 * LONGEST


@pytest.mark.usefixtures("small_probe")
def test_the_trainer_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert training_result(list(random_texts(200)), 300).facts.trainer == "gigatoken"
    assert capfd.readouterr() == ("", "")
