"""The corpus of the shards: the files that a token bound fetches, and the sample's own corpus."""

import shutil
from pathlib import Path

import pytest
from fit_world import documents, options
from loopback_hub import Hub
from loopback_hub.publish import parquet_bytes, publish_dataset

from pipeline_lib.machine import folder_bytes
from pipeline_lib.preflight.amounts import SizingParameters
from pipeline_lib.preflight.corpus_size import hub_corpus, sample_corpus
from pipeline_lib.preflight.ratios import bytes_per_token
from pipeline_lib.sampledata.corpus_files import CORPUS
from pipeline_lib.shuffling import file_order

FILE = documents(200)
TEXT = FILE["text"].nbytes
VOCABULARY = 1_024


def bounded(tokens: int | None) -> SizingParameters:
    corpus = ("acme/corpus", "default")
    return SizingParameters(max_len=8, vocab_size=VOCABULARY, train_tokens=tokens, corpus=corpus)


def publish(hub: Hub, files: int = 4) -> int:
    """Publish some equal files; the size of one."""
    publish_dataset(hub, "acme/corpus", {"default": {"train": [FILE] * files}})
    return len(parquet_bytes(FILE))


def test_without_a_bound_the_whole_corpus_is_fetched(hub: Hub) -> None:
    size = publish(hub)
    found = hub_corpus(bounded(None), options())
    assert (found.rows, found.network, found.saved) == (800, 4 * size, 0)
    assert found.text == pytest.approx(4 * TEXT, rel=0.1)


def test_a_bound_takes_files_until_tokens_and_buffer_are_full(hub: Hub) -> None:
    size = publish(hub)
    few, one = (hub_corpus(bounded(tokens), options()) for tokens in (1, int(TEXT)))
    assert few.network == 4 * size  # the buffer takes them all
    assert one.network == 4 * size


def test_of_a_long_corpus_only_the_first_files_of_the_order_are_asked_for(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = publish(hub)
    monkeypatch.setattr("pipeline_lib.corpus.recipe.Recipe.shuffle_buffer", 100)
    hub.journal.clear()
    wanted = int(1.2 * TEXT / bytes_per_token(VOCABULARY))
    assert hub_corpus(bounded(wanted), options()).network == 2 * size
    names = [f"default/train-{k:05d}-of-00004.parquet" for k in range(4)]
    asked = {name for name in names for entry in hub.journal if name in entry.path}
    assert asked == set(file_order(names, options().seed)[:2])


def test_a_corpus_that_is_not_there_is_unknown_and_says_why(hub: Hub) -> None:
    found = hub_corpus(bounded(5), options())
    assert not found.known and "not found" in found.note


def test_the_corpus_of_the_sample_is_known_before_it_is_made(sample: Path, tmp_path: Path) -> None:
    before = sample_corpus(tmp_path)
    files = Path(shutil.copytree(sample / CORPUS, tmp_path / CORPUS)).glob("*.parquet")
    after = sample_corpus(tmp_path)
    assert before.text == after.text and before.rows == after.rows == 3_600
    assert before.saved == pytest.approx(folder_bytes(tmp_path), rel=0.1)
    assert after.present and after.saved == folder_bytes(tmp_path)
    text = sum(sample_text(file) for file in files)
    assert before.text == pytest.approx(text, rel=0.01)


def sample_text(path: Path) -> int:
    import pyarrow.parquet as pq

    rows = pq.read_table(path)["text"].to_pylist()
    return sum(len((row or "").encode()) for row in rows)
