"""The corpus of the sample: made once, sealed, made anew for another version, never repaired."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from durability import broken_promises

from pipeline_lib.downloads.saved import MANIFEST
from pipeline_lib.errors import DamagedFile, Locked
from pipeline_lib.sampledata.corpus_files import (
    CORPUS,
    CORPUS_FILES,
    CORPUS_ROWS,
    is_there,
    make_corpus,
)
from pipeline_lib.storage import sealed_folder


@pytest.fixture
def folder(sample: Path, tmp_path: Path) -> Path:
    shutil.copytree(sample / CORPUS, tmp_path / CORPUS)
    return tmp_path / CORPUS


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_is_several_files_with_nulls_blanks_and_duplicates(folder: Path) -> None:
    files = sorted(folder.glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(file) for file in files])
    texts = table.column("text").to_pylist()
    assert len(files) == CORPUS_FILES and len(texts) == CORPUS_FILES * CORPUS_ROWS
    assert table.schema.field("text").type == pa.string()
    assert None in texts and "" in texts and any(text and not text.strip() for text in texts)
    kept = [text for text in texts if text and text.strip()]
    assert len(set(kept)) < len(kept) and any("<|endoftext|>" in text for text in kept)


def test_it_is_made_once_and_has_the_same_bytes_every_time(folder: Path, tmp_path: Path) -> None:
    before = contents(folder)
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert make_corpus(folder) == sorted(folder.glob("*.parquet"))
    assert times == {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    make_corpus(tmp_path / "again")
    assert contents(tmp_path / "again") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", CORPUS]


def test_the_manifest_lists_every_file_with_its_hash(folder: Path) -> None:
    listed = json.loads((folder / MANIFEST).read_text())["files"]
    files = [vars(file) for file in sealed_folder.list_files(folder) if file.name != MANIFEST]
    assert listed == files and len(files) == CORPUS_FILES


@pytest.mark.parametrize("damage", ["changed", "missing", "flipped"])
def test_a_corpus_that_was_changed_is_refused_and_not_overwritten(
    folder: Path, damage: str
) -> None:
    path = folder / "part-00.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    if damage != "missing":
        path.write_bytes(b"mine" if damage == "changed" else data)
    before = contents(folder)
    with pytest.raises(DamagedFile, match=r"part-00.parquet.* remove the folder .* make"):
        make_corpus(folder)
    assert contents(folder) == before


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"sample": "two"}', '{"sample": 2, "manifest_version": 2}']
)
def test_a_damaged_manifest_is_not_taken_for_an_older_one(folder: Path, text: str) -> None:
    (folder / MANIFEST).write_text(text)
    with pytest.raises(DamagedFile, match=r"manifest.json .*; remove the folder"):
        make_corpus(folder)


def test_a_folder_of_someone_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / CORPUS).mkdir()
    (tmp_path / CORPUS / "mine.parquet").write_bytes(b"mine")
    with pytest.raises(
        DamagedFile, match=r"has no manifest\.json, so it is not the sample's corpus"
    ):
        make_corpus(tmp_path / CORPUS)
    assert contents(tmp_path / CORPUS) == {"mine.parquet": b"mine"}


@pytest.mark.parametrize(
    "manifest",
    [
        {"sample": 2, "sizes": {"part-00.parquet": 142_404}},  # the first form had sizes alone
        {"sample": 1, "sizes": {}},
        {"sample": 1, "manifest_version": 2, "files": []},
        {"sample": 2, "manifest_version": 9},
    ],
)
def test_a_corpus_of_another_version_is_made_anew(folder: Path, manifest: dict[str, Any]) -> None:
    before = contents(folder)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    (folder / "part-00.parquet").write_bytes(b"old")
    assert not is_there(folder)
    make_corpus(folder)
    assert is_there(folder) and contents(folder) == before


def test_an_interrupted_corpus_is_begun_again(tmp_path: Path) -> None:
    left = tmp_path / f"{CORPUS}.incomplete" / "payload"
    left.mkdir(parents=True)
    (left / "part-99.parquet").write_bytes(b"half")
    make_corpus(tmp_path / CORPUS)
    assert [path.name for path in tmp_path.iterdir()] == [CORPUS]
    assert is_there(tmp_path / CORPUS) and len(list((tmp_path / CORPUS).iterdir())) == 7


def test_two_processes_do_not_make_one_corpus(tmp_path: Path) -> None:
    with sealed_folder.building(tmp_path / CORPUS), pytest.raises(Locked):
        make_corpus(tmp_path / CORPUS)


def test_after_a_power_cut_the_corpus_is_whole_or_absent(tmp_path: Path) -> None:
    assert broken_promises(tmp_path, lambda: make_corpus(tmp_path / CORPUS)) == []
