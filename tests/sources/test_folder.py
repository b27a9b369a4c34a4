"""A folder is what its files are: names, sizes and footers; each file is sealed when opened."""

import shutil
from pathlib import Path

import pytest
from corpora import folder_of, rows, write_parquet
from crashes import flip, touch

from pipeline_lib.errors import DamagedFile, SourceChanged, SourceError
from pipeline_lib.sources.folder import FolderSource
from pipeline_lib.sources.resolve import resolve_parquet_files


def test_a_folder_is_searched_through_all_its_subfolders(tmp_path: Path) -> None:
    for name in ("b/c/2.parquet", "a.parquet", "b/1.parquet", ".hidden.parquet", "notes.txt"):
        write_parquet(tmp_path / name, ["x"])
    found = [file["name"] for file in FolderSource(str(tmp_path)).files]
    assert found == ["a.parquet", "b/1.parquet", "b/c/2.parquet"]


def test_a_folder_without_parquet_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no \*\.parquet file; give a folder of Parquet"):
        FolderSource(str(tmp_path))


def test_a_damaged_file_is_named_before_any_work(tmp_path: Path) -> None:
    folder_of(tmp_path / "corpus")
    path = tmp_path / "corpus" / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedFile, match=r"part-1\.parquet .* does not end in a Parquet footer"):
        FolderSource(str(tmp_path / "corpus"))


def test_the_identity_of_a_folder_is_not_its_path_or_its_times(tmp_path: Path) -> None:
    first = FolderSource(str(folder_of(tmp_path / "one")))
    shutil.copytree(tmp_path / "one", tmp_path / "two" / "deep")
    touch(tmp_path / "two" / "deep" / "part-0.parquet")
    assert FolderSource(str(tmp_path / "two" / "deep")).revision == first.revision
    assert first.dataset == "folder" and first.config is None


def test_the_order_in_which_files_were_made_does_not_matter(tmp_path: Path) -> None:
    for folder, order in (("one", range(12)), ("two", [7, 3, 11, 0, 5, 9, 1, 10, 2, 8, 4, 6])):
        for number in order:
            write_parquet(tmp_path / folder / f"part-{number}.parquet", rows(5, number * 5))
    one, two = (FolderSource(str(tmp_path / name)) for name in ("one", "two"))
    assert one.files == two.files and one.revision == two.revision


@pytest.mark.parametrize("change", ["added", "removed", "renamed", "rewritten"])
def test_any_change_of_the_listing_is_another_identity(tmp_path: Path, change: str) -> None:
    folder = folder_of(tmp_path / "corpus")
    before = FolderSource(str(folder)).revision
    path = folder / "part-1.parquet"
    if change == "added":
        write_parquet(folder / "part-9.parquet", ["x"])
    elif change == "removed":
        path.unlink()
    elif change == "renamed":
        path.rename(folder / "part-7.parquet")
    else:
        write_parquet(path, ["another"])
    assert FolderSource(str(folder)).revision != before
    with pytest.raises(SourceChanged, match=f"but {before} was asked for"):
        resolve_parquet_files(str(folder), revision=before)


def test_a_file_is_sealed_when_it_is_first_opened(tmp_path: Path) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    assert source.seals == {}
    path = source.path("part-0.parquet")
    assert source.seals["part-0.parquet"]["mtime_ns"] == path.stat().st_mtime_ns
    assert len(source.seals["part-0.parquet"]["sha256"]) == 64


def test_a_touched_file_with_equal_bytes_is_fine(tmp_path: Path) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    sealed = source.path("part-0.parquet")
    before = source.seals["part-0.parquet"]["mtime_ns"]
    touch(sealed)
    assert source.path("part-0.parquet") == sealed
    assert source.seals["part-0.parquet"]["mtime_ns"] == before + 5 * 10**9


def test_a_file_whose_bytes_changed_is_named_with_both_hashes(tmp_path: Path) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    path = source.path("part-0.parquet")
    flip(path, 20)
    touch(path)
    with pytest.raises(SourceChanged, match=r"part-0\.parquet changed .* was \w{64}, is \w{64}"):
        source.path("part-0.parquet")


def test_a_file_that_is_replaced_or_gone_before_it_is_first_opened_is_named(
    tmp_path: Path,
) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    write_parquet(tmp_path / "corpus" / "part-1.parquet", rows(7))
    with pytest.raises(SourceChanged, match=r"part-1\.parquet changed since the run began: [\d,]+"):
        source.path("part-1.parquet")
    (tmp_path / "corpus" / "part-1.parquet").unlink()
    with pytest.raises(SourceChanged, match=r"part-1\.parquet is gone; bring it back"):
        source.path("part-1.parquet")


def test_rows_are_counted_from_the_footers(tmp_path: Path) -> None:
    write_parquet(tmp_path / "empty.parquet", [])
    assert FolderSource(str(folder_of(tmp_path))).rows_by_file() == {
        "empty.parquet": 0, "part-0.parquet": 40, "part-1.parquet": 40, "part-2.parquet": 40
    }  # fmt: skip


def test_files_with_a_capital_suffix_and_behind_links_are_read(tmp_path: Path) -> None:
    write_parquet(tmp_path / "corpus" / "a.PARQUET", ["one"])
    write_parquet(tmp_path / "elsewhere" / "b.parquet", ["two"])
    (tmp_path / "corpus" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "circle").symlink_to(tmp_path / "corpus")
    found = resolve_parquet_files(str(tmp_path / "corpus"))
    assert [file["name"] for file in found.files] == ["a.PARQUET", "linked/b.parquet"]


def test_what_is_hidden_is_passed_over_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_parquet(tmp_path / "a.parquet", ["one"])
    write_parquet(tmp_path / ".b.parquet", ["two"])
    assert len(resolve_parquet_files(str(tmp_path)).files) == 1
    assert ".b.parquet" in caplog.text


def test_two_files_of_equal_content_are_both_read_and_named_in_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder_of(tmp_path / "corpus")
    shutil.copy(tmp_path / "corpus" / "part-0.parquet", tmp_path / "corpus" / "copy.parquet")
    source = FolderSource(str(tmp_path / "corpus"))
    for file in source.files:
        source.path(file["name"])
    (line,) = caplog.messages
    assert "copy.parquet and part-0.parquet have the same content" in line
    touch(tmp_path / "corpus" / "part-0.parquet")
    source.path("part-0.parquet")
    assert len(caplog.messages) == 1
