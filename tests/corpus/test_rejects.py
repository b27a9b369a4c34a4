"""Documents that can not have ids are left out, counted by reason, and the first ones named."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import (
    REFERENCE,
    documents_of,
    small_recipe,
    texts,
    tokenizer_bytes,
    tokenizer_file,
    write_parquet,
)  # fmt: skip
from crashes import leave_unfinished
from tokenizer_kinds import letters, tokenizer_json, word_level
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from pipeline_lib.corpus.batches import DocumentBatch, VisitCounts
from pipeline_lib.corpus.description import summary
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.options import PrepareOptions
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.rejects import END_TOKEN, NO_TOKENS, NOT_ENCODABLE, REASONS, sort_out
from pipeline_lib.corpus.verify import verify
from pipeline_lib.corpus.verify_source import verify_against_source
from pipeline_lib.shuffling import START, ShuffleState
from pipeline_lib.sources.resolve import resolve_parquet_files
from pipeline_lib.tokenization.reference import Encoded
from pipeline_lib.tokenization.tokenizer import load_tokenizer

EOS_ID = 9


def batch(train: list[bytes], val: list[bytes], places: Sequence[int] = ()) -> DocumentBatch:
    texts = [*train, *val]
    positions = np.array(places or range(len(texts)), np.int64)
    state = ShuffleState(START, 0, [], False)
    return DocumentBatch(texts, len(train), positions, [], VisitCounts(len(texts)), state, False)


def coded(*parts: Sequence[int]) -> Encoded:
    offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return Encoded(np.array([i for part in parts for i in part], np.uint32), offsets)


def test_documents_without_ids_with_the_end_token_or_refused_are_taken_out() -> None:
    work = batch([b"a", b"b", b"c"], [b"d", b"e", b"f"], places=[0, 2, 4, 1, 3, 5])
    work = work._replace(first_row=100, probes=[0, 2, 4])
    answer = coded([1, 2], [], [3], [4, EOS_ID, 5], [], [6])
    found = sort_out(work, answer, {4: "words"}, EOS_ID)
    assert found.batch.texts == [b"a", b"c", b"f"] and found.batch.train == 2
    assert found.encoded.ids.tolist() == [1, 2, 3, 6]
    assert found.encoded.offsets.tolist() == [0, 2, 3, 4]
    assert found.batch.positions.tolist() == [0, 4, 5] and found.batch.probes == [0, 1]
    assert [(one.reason, one.row, one.text) for one in found.rejected] == [
        (END_TOKEN, 101, b"d"), (NO_TOKENS, 102, b"b"), (NOT_ENCODABLE, 103, b"e"),
    ]  # fmt: skip


def test_a_batch_of_sound_documents_is_handed_on_as_it_is() -> None:
    work, answer = batch([b"a"], [b"b"]), coded([1], [2])
    found = sort_out(work, answer, {}, EOS_ID)
    assert found.batch is work and found.encoded is answer and found.rejected == []


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=80, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(["words about <b>bold</b> piers and weather"] * 30, trainer)
    return tokenizer


def without_unknown() -> Tokenizer:
    words = {"the": 0, "cat": 1, "</s>": 2}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<gone>"))
    tokenizer.pre_tokenizer = word_level().pre_tokenizer
    tokenizer.add_special_tokens(["</s>"])
    return tokenizer


GOOD = {
    letters: "the cat sat on the mat",
    unigram: "words about piers and weather",
    without_unknown: "the cat",
}
BAD = {letters: "ДОГ", unigram: "a word</s> in old pages", without_unknown: "the dog"}
WHY = {letters: NO_TOKENS, unigram: END_TOKEN, without_unknown: NOT_ENCODABLE}
Make = Callable[[], Tokenizer]


def world(folder: Path, make: Make, rows: int = 90) -> Any:
    """Every tenth row is a document that has no ids."""
    found = [BAD[make] if n % 10 == 7 else f"{GOOD[make]}{' ' * n}" for n in range(rows)]
    write_parquet(folder / "corpus" / "a.parquet", found[:40])
    write_parquet(folder / "corpus" / "b.parquet", found[40:])
    tokenizer_file(folder / "tokenizer", tokenizer_json(make))
    return small_recipe(folder, eos_token="</s>", shard_tokens=64)


@pytest.mark.parametrize("make", GOOD, ids=lambda make: make.__name__)
def test_a_run_leaves_them_out_says_so_and_names_the_first_by_file_and_row(
    tmp_path: Path, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = world(tmp_path, make)
    with caplog.at_level(logging.WARNING):
        made = prepare(recipe, tmp_path / "out")
    assert made["rows_left_out"] == {"null": 0, "blank": 0, **dict.fromkeys(REASONS, 0)} | {
        WHY[make]: 9
    }
    assert made["counts"]["train_documents"] + made["counts"]["val_documents"] == 81
    (first,) = made["measured"]["first_rejected"]
    assert first["reason"] == WHY[make] and first["file"] in ("a.parquet", "b.parquet")
    assert first["row"] is not None and first["row"] % 10 == 7
    assert f"row {first['row']} of {first['file']}" in caplog.text
    assert f"left out 9 {WHY[make]}" in summary(made, tmp_path)
    tokenizer = load_tokenizer(tmp_path / "tokenizer", eos_token="</s>")
    for split in ("train", "val"):
        assert all(len(ids) > 0 for ids in documents_of(tmp_path / "out", split, tokenizer.eos_id))
    assert verify(tmp_path / "out") == []
    source = resolve_parquet_files(str(tmp_path / "corpus"))
    compared = verify_against_source(tmp_path / "out", source, tokenizer)
    assert compared.faults == [] and compared.done.startswith("all 81 documents were made again")


@pytest.mark.parametrize("make", GOOD, ids=lambda make: make.__name__)
def test_a_resumed_run_counts_them_as_one_that_was_not_killed(tmp_path: Path, make: Make) -> None:
    recipe = world(tmp_path, make)
    whole = prepare(recipe, tmp_path / "whole")
    leave_unfinished(recipe, tmp_path / "out", batches=4)
    resumed = prepare(recipe, tmp_path / "out", True)
    assert resumed["content_sha256"] == whole["content_sha256"]
    assert resumed["measured"]["first_rejected"] == whole["measured"]["first_rejected"]
    for field in ("decoded_again", "decoded_with_loss"):
        assert resumed["measured"][field] == whole["measured"][field]


def test_both_encoders_reject_the_same_documents(tmp_path: Path) -> None:
    """The end token is an ordinary token of the vocabulary, which text becomes."""
    found = [*texts(40), "the the", *texts(40, 100)]
    write_parquet(tmp_path / "corpus" / "a.parquet", found)
    tokenizer_file(tmp_path / "tokenizer", tokenizer_bytes())
    recipe = small_recipe(tmp_path, eos_token="Ġunder")
    made = {}
    for kind in ("gigatoken", "tokenizers"):
        made[kind] = prepare(recipe, tmp_path / kind, options=PrepareOptions(encoder=kind))
    one, other = made.values()
    assert one["content_sha256"] == other["content_sha256"]
    assert one["rows_left_out"][END_TOKEN] > 5


def test_unknown_tokens_and_lost_text_are_counted_and_said(tmp_path: Path) -> None:
    words = ["the river", "the sea of stone", "the of"]
    write_parquet(tmp_path / "corpus" / "a.parquet", [words[n % 3] for n in range(60)])
    tokenizer_file(tmp_path / "tokenizer", tokenizer_json(word_level))
    made: Manifest = prepare(small_recipe(tmp_path), tmp_path / "out", options=REFERENCE)
    assert made["unknown_tokens"] == 20  # "sea", in one of three documents
    assert made["measured"]["decoded_again"] >= 16 and made["measured"]["decoded_with_loss"] > 3
    assert "; 20 unknown tokens; text lost in" in summary(made, tmp_path)


def test_a_tokenizer_that_loses_in_silence_has_every_document_decoded(tmp_path: Path) -> None:
    found = [f"the {'t' * n} cat" if n % 4 else f"the 語 {'t' * n}" for n in range(80)]
    write_parquet(tmp_path / "corpus" / "a.parquet", found)
    tokenizer_file(tmp_path / "tokenizer", tokenizer_json(letters))
    recipe = small_recipe(tmp_path, eos_token="</s>")
    measured = prepare(recipe, tmp_path / "out", options=REFERENCE)["measured"]
    assert (measured["decoded_again"], measured["decoded_with_loss"]) == (80, 20)


def test_a_shard_names_the_visited_row_of_its_first_document(tmp_path: Path) -> None:
    recipe = world(tmp_path, letters)
    made = prepare(recipe, tmp_path / "out", options=REFERENCE)
    shards = made["shards"]["train"]
    rows = [shard["first_row"] for shard in shards]
    assert len(rows) > 3 and rows == sorted(rows) and rows[-1] < made["counts"]["rows_visited"]
    for shard in shards:
        assert shard["first_row"] >= shard["first_document"]
