"""A published folder begins with what its source gives, whatever the tokenizer loses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import (
    EOS,
    REFERENCE,
    plain,
    rows,
    small_recipe,
    texts,
    tokenizer_file,
    with_other_text,
    write_parquet,
)
from encoder_faults import spoil_gigatoken
from loopback_hub.publish import byte_level_tokenizer
from tampering import edit, replace_shard
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers

from pipeline_lib.corpus import verify_source
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.verify_source import Compared, verify_against_source
from pipeline_lib.sources.resolve import resolve_parquet_files
from pipeline_lib.tokenization.tokenizer import load_tokenizer


def compare(world: Path, out: Path | None = None) -> Compared:
    source = resolve_parquet_files(str(world / "corpus"))
    return verify_against_source(out or world / "out", source, load_tokenizer(world / "tokenizer"))


def test_the_first_documents_of_both_splits_are_made_again(world: Path) -> None:
    assert compare(world) == Compared(
        [],
        "all 112 documents were made again from the source by the reference encoder: equal ids; "
        "they decode to the texts",
    )


def test_every_lane_is_compared(tmp_path: Path) -> None:
    prepare(small_recipe(tmp_path, lanes=3), tmp_path / "out", options=REFERENCE)
    assert compare(tmp_path).done.startswith("all 112 documents were made again")


def test_a_source_with_other_text_is_not_taken_for_a_fault_of_the_shards(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    for path in (tmp_path / "corpus").iterdir():
        plain(path)
    prepare(recipe, tmp_path / "out", options=REFERENCE)
    with_other_text(tmp_path / "corpus" / "part-1.parquet")
    (fault,) = compare(tmp_path).faults
    assert "out was made from other content: " in fault and "part-1.parquet changed" in fault


LOSSY: dict[str, Any] = {
    "whole words": (
        models.WordLevel({"the": 0, "river": 1, "?": 2, EOS: 3}, unk_token="?"),
        None, pre_tokenizers.Whitespace(), None,
    ),
    "lower case": (
        models.WordPiece(
            {"?": 0, EOS: 1} | {c: n for n, c in enumerate("abcdefghijklmnopqrstuvwxyz.", 2)}
            | {f"##{c}": n for n, c in enumerate("abcdefghijklmnopqrstuvwxyz.", 40)},
            unk_token="?",
        ),
        normalizers.Lowercase(), pre_tokenizers.Whitespace(), decoders.WordPiece(),
    ),
    "a space before every text": (
        models.Unigram([("?", 0.0), ("\u2581", -2.0), (EOS, -9.0)]
                       + [(c, -3.0) for c in "abcdefghijklmnopqrstuvwxyz.0123456789"], 0),
        None, pre_tokenizers.Metaspace(prepend_scheme="always"), decoders.Metaspace(),
    ),
}  # fmt: skip


def lossy_tokenizer(kind: str) -> bytes:
    model, normalizer, pre_tokenizer, decoder = LOSSY[kind]
    tokenizer = Library(model)
    tokenizer.add_special_tokens([EOS])
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer.to_str().encode()


@pytest.mark.parametrize("kind", LOSSY)
def test_a_tokenizer_that_loses_text_is_compared_by_its_ids(tmp_path: Path, kind: str) -> None:
    tokenizer_file(tmp_path / "tokenizer", lossy_tokenizer(kind))
    write_parquet(tmp_path / "corpus" / "a.parquet", [f" {t.title()}  A" for t in texts(60)])
    prepare(small_recipe(tmp_path), tmp_path / "out", options=REFERENCE)
    faults, done = compare(tmp_path)
    assert faults == []
    assert done == (
        "all 60 documents were made again from the source by the reference encoder: equal ids; "
        "not decoded, as the tokenizer loses text"
    )


@pytest.mark.parametrize("token", range(40, 50))
def test_a_document_with_another_text_is_named_on_whatever_side_its_text_falls(
    world: Path, out: Path, token: int
) -> None:
    replace_shard(out, lambda ids: ids.__setitem__(np.flatnonzero(ids == 0)[2] - 1, token))
    (fault,) = compare(world, out).faults
    assert f"{out}: train_00000.npy, document 2: the source's text b'" in fault
    assert "has ids [" in fault and "the shard holds [" in fault


def test_two_documents_that_changed_places_are_found(world: Path, out: Path) -> None:
    def swap(ids: np.ndarray[Any, Any]) -> None:
        one, two = np.flatnonzero(ids == 0)[:2]
        ids[: two + 1] = np.concatenate([ids[one + 1 : two + 1], ids[: one + 1]])

    replace_shard(out, swap)
    assert "train_00000.npy, document 0: the source's text" in compare(world, out).faults[0]


def test_another_source_or_tokenizer_is_told_apart(world: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(world / "tokenizer")
    write_parquet(tmp_path / "corpus" / "a.parquet", rows(5))
    other = resolve_parquet_files(str(tmp_path / "corpus"))
    (fault,) = verify_against_source(world / "out", other, tokenizer).faults
    assert "was made from the source sha256:" in fault and f"not {other.revision}" in fault
    wrong = load_tokenizer(tokenizer_file(tmp_path / "t", byte_level_tokenizer(vocab_size=299)))
    source = resolve_parquet_files(str(world / "corpus"))
    found = verify_against_source(world / "out", source, wrong)
    assert f"the tokenizer {tokenizer.sha256}, not {wrong.sha256}" in found.faults[0]
    assert found.done == "no document was compared"


def test_a_recipe_of_another_algorithm_can_not_be_made_again(world: Path, out: Path) -> None:
    edit(out, lambda fields: fields["recipe"].update(algorithm=99))
    assert "algorithm version 99" in compare(world, out).faults[0]


def test_a_folder_that_holds_more_than_its_source_gives_is_found(
    world: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_source, "blocks", lambda *more: iter(()))
    assert (
        "the source ends after 0 rows and gives no text for train_00000.npy, document 0"
        in (compare(world, out).faults[0])
    )


def test_rows_beyond_the_bound_and_long_texts_are_left_out_and_said(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_source, "SAMPLED_ROWS", 30)
    monkeypatch.setattr(verify_source, "LONGEST", 100)
    faults, done = compare(world)
    assert faults == [] and done.endswith("texts above 100 bytes not compared")
    assert int(done.split()[0]) < 30


def test_a_document_longer_than_the_sample_ends_it(tmp_path: Path) -> None:
    write_parquet(tmp_path / "corpus" / "a.parquet", [*texts(40), "word " * 600_000])
    prepare(small_recipe(tmp_path, shard_tokens=500_000), tmp_path / "out", options=REFERENCE)
    counted = json.loads((tmp_path / "out" / "metadata.json").read_bytes())["counts"]
    assert counted["train_tokens"] + counted["val_tokens"] > verify_source.SAMPLED_TOKENS
    assert compare(tmp_path).faults == []


def test_a_document_that_a_wrong_fast_encoder_wrote_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = texts(200)
    write_parquet(tmp_path / "corpus" / "a.parquet", found)
    with monkeypatch.context() as spoiled:
        spoil_gigatoken(spoiled, found[170].encode())
        made = prepare(small_recipe(tmp_path, shuffle_buffer=1), tmp_path / "out")
    assert made["measured"]["encoders"][0]["name"] == "gigatoken"
    (fault,) = compare(tmp_path).faults
    assert f"the source's text {found[170].encode()[:60]!r} has ids [" in fault


def test_a_shard_that_is_recorded_to_begin_at_another_row_is_named(world: Path, out: Path) -> None:
    edit(out, lambda fields: fields["shards"]["train"][0].update(first_row=1))
    (fault,) = compare(world, out).faults
    assert "train_00000.npy, document 0 came from row 0, not 1" in fault
