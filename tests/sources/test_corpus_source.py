"""A source hands out rows file by file, and nothing that is not as it was listed."""

from pathlib import Path

import pytest
from corpora import folder_of, plain, rows, with_other_text, write_parquet
from crashes import flip, touch

from pipeline_lib import digest
from pipeline_lib.errors import SourceChanged
from pipeline_lib.records import Cursor
from pipeline_lib.shuffling import START
from pipeline_lib.sources.corpus_source import blocks, check_sealed
from pipeline_lib.sources.folder import FolderSource


def rows_of(source: FolderSource, start: Cursor = START) -> list[bytes | None]:
    names = [file["name"] for file in source.files]
    return [row for block in blocks(source, names, "text", start) for row in block.rows]


@pytest.mark.parametrize("start", [START, Cursor(0, 3), Cursor(1, 0), Cursor(1, 40), Cursor(2, 39)])
def test_rows_come_file_by_file_from_any_cursor_on(tmp_path: Path, start: Cursor) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    expected = [None if row is None else row.encode() for row in rows(120)]
    assert rows_of(source, start) == expected[start.file * 40 + start.row :]


def test_brackets_and_spaces_in_a_path_are_literal(tmp_path: Path) -> None:
    folder = tmp_path / "[D_DATA]" / "run (1)*?"
    write_parquet(folder / "[train]-00000-of-00001.parquet", ["a", "b", "c"])
    assert rows_of(FolderSource(str(folder))) == [b"a", b"b", b"c"]


def test_seals_of_an_earlier_run_are_checked_without_opening_the_files_again(
    tmp_path: Path,
) -> None:
    folder = str(folder_of(tmp_path / "corpus"))
    first = FolderSource(folder)
    first.path("part-2.parquet")
    check_sealed(FolderSource(folder), first.seals)
    flip(Path(folder, "part-2.parquet"), 20)
    touch(Path(folder, "part-2.parquet"))
    with pytest.raises(SourceChanged, match=r"part-2\.parquet changed since the run opened it"):
        check_sealed(FolderSource(folder), first.seals)


CHANGES = {
    "other text in place": with_other_text,
    "another file": lambda path: write_parquet(path.with_name("new"), ["x"]).replace(path),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:300]),
    "removed": Path.unlink,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_while_it_is_read_is_named_and_gives_no_further_row(
    tmp_path: Path, change: str
) -> None:
    path = plain(write_parquet(tmp_path / "a.parquet", rows(64)))
    reading = blocks(FolderSource(str(tmp_path)), ["a.parquet"], "text", START)
    assert len(next(reading).rows) == 16
    CHANGES[change](path)
    with pytest.raises(SourceChanged, match=r"a\.parquet (changed since the run|is gone)"):
        next(reading)


def test_a_file_that_is_touched_while_it_is_read_is_read_on(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", rows(64))
    reading = blocks(FolderSource(str(tmp_path)), ["a.parquet"], "text", START)
    first = next(reading)
    touch(path)
    assert sum(len(block.rows) for block in reading) + len(first.rows) == 64


def test_a_file_that_grows_while_it_is_hashed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    hashed = digest.sha256_file

    def slowly(path: Path) -> str:
        found = hashed(path)
        touch(path)
        return found

    monkeypatch.setattr(digest, "sha256_file", slowly)
    with pytest.raises(SourceChanged, match=r"part-0\.parquet is being written; wait"):
        source.path("part-0.parquet")
