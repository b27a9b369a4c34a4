"""A source is pinned, lists its files, and hands out nothing that is not what it listed."""

import shutil
from pathlib import Path

import pytest
from corpora import REFERENCE, folder_of, rows, small_recipe, write_parquet
from crashes import flip, touch
from hub import Hub
from hub.publish import parquet_bytes, publish_dataset
from hub.repository import Repo

from pipeline_lib.errors import ColumnError, DamagedFile, HubError, SourceChanged, SourceError
from pipeline_lib.order import START, file_order
from pipeline_lib.preparing.preparation import prepare
from pipeline_lib.recipe import Recipe
from pipeline_lib.records import Cursor
from pipeline_lib.sources import (
    FolderSource,
    blocks,
    check_columns,
    check_first_file,
    check_sealed,
    reader_metadata,
    resolve_parquet_files,
)


def rows_of(source: FolderSource, start: Cursor = START) -> list[bytes | None]:
    names = [file["name"] for file in source.files]
    return [row for block in blocks(source, names, "text", start) for row in block.rows]


def test_a_folder_is_searched_through_all_its_subfolders(tmp_path: Path) -> None:
    for name in ("b/c/2.parquet", "a.parquet", "b/1.parquet", ".hidden.parquet", "notes.txt"):
        write_parquet(tmp_path / name, ["x"])
    found = [file["name"] for file in FolderSource(str(tmp_path)).files]
    assert found == ["a.parquet", "b/1.parquet", "b/c/2.parquet"]


def test_brackets_and_spaces_in_a_path_are_literal(tmp_path: Path) -> None:
    folder = tmp_path / "[D_DATA]" / "run (1)*?"
    write_parquet(folder / "[train]-00000-of-00001.parquet", ["a", "b", "c"])
    assert rows_of(FolderSource(str(folder))) == [b"a", b"b", b"c"]


def test_a_folder_without_parquet_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no \*\.parquet file; give a folder of Parquet"):
        FolderSource(str(tmp_path))


@pytest.mark.parametrize("name", ["/no/such/folder", "./missing", "~/corpus", "a/b/c", "wikitext"])
def test_what_is_neither_folder_nor_dataset_name_is_refused(name: str) -> None:
    with pytest.raises(SourceError, match="neither an existing folder nor a Hub dataset"):
        resolve_parquet_files(name)


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


def test_the_column_is_checked_in_every_local_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "corpus")
    (folder / "part-9.parquet").write_bytes(parquet_bytes([{"text": 1}]))
    with pytest.raises(ColumnError, match=r"part-9\.parquet: column `text` is int64"):
        check_columns(FolderSource(str(folder)), "text")


@pytest.mark.parametrize("start", [START, Cursor(0, 3), Cursor(1, 0), Cursor(1, 40), Cursor(2, 39)])
def test_rows_come_file_by_file_from_any_cursor_on(tmp_path: Path, start: Cursor) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    expected = [None if row is None else row.encode() for row in rows(120)]
    assert rows_of(source, start) == expected[start.file * 40 + start.row :]


def test_rows_are_counted_from_the_footers(tmp_path: Path) -> None:
    write_parquet(tmp_path / "empty.parquet", [])
    assert FolderSource(str(folder_of(tmp_path))).rows() == 120


def test_reader_metadata_says_how_rows_are_read_and_ordered(tmp_path: Path) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    found = reader_metadata(source, Recipe(dataset="folder", seed=5, lanes=2))
    names = [file["name"] for file in source.files]
    assert found["files"] == file_order(names, 5)
    assert (found["interface"], found["column"], found["batch_size"]) == ("parquet", "text", 1024)
    assert found["shuffle"]["documents"] == [[5, 1], [5, 2]]
    assert found["sizes"] == {name: Path(source.location, name).stat().st_size for name in names}


def hub_rows(count: int) -> list[dict[str, str | None]]:
    return [{"text": row} for row in rows(count)]


def test_a_hub_dataset_is_pinned_to_a_commit_and_read_at_it(hub: Hub) -> None:
    repo = publish_dataset(hub, "acme/docs", {"default": {"train": [hub_rows(10), hub_rows(4)]}})
    source = resolve_parquet_files("acme/docs", None, "main")
    assert (source.dataset, source.revision) == ("acme/docs", repo.sha)
    before = repo.sha
    publish_more(repo)
    assert repo.sha != before
    names = [file["name"] for file in source.files]
    found = [row for block in blocks(source, names, "text", START) for row in block.rows]
    assert len(found) == 14


def publish_more(repo: Repo) -> None:
    repo.edit({"default/train-00000-of-00002.parquet": parquet_bytes([{"text": "new"}])})


def test_only_the_train_split_of_the_config_is_read(hub: Hub) -> None:
    files = {"train": [hub_rows(3)], "test": [hub_rows(5)]}
    publish_dataset(hub, "acme/docs", {"en": files, "fr": {"train": [hub_rows(7)]}})
    source = resolve_parquet_files("acme/docs", "fr")
    assert [file["name"] for file in source.files] == ["fr/train-00000-of-00001.parquet"]
    with pytest.raises(HubError, match="has no config 'de'; it has 'en', 'fr'"):
        resolve_parquet_files("acme/docs", "de")


def test_a_config_without_train_files_lists_the_splits_there_are(hub: Hub) -> None:
    publish_dataset(hub, "acme/docs", {"default": {"test": [hub_rows(3)]}})
    with pytest.raises(HubError, match="has no split 'train'; it has 'test'"):
        resolve_parquet_files("acme/docs")


def test_a_hub_file_that_arrives_damaged_is_fetched_again(hub: Hub) -> None:
    publish_dataset(hub, "acme/docs", {"default": {"train": [hub_rows(10)]}})
    source = resolve_parquet_files("acme/docs")
    fault = hub.fault("/cdn/", method="GET", corrupt=True)
    names = [file["name"] for file in source.files]
    assert sum(len(block.rows) for block in blocks(source, names, "text", START)) == 10
    assert fault.times == 0


def test_a_wrong_column_of_a_hub_dataset_leaves_nothing_behind(hub: Hub, tmp_path: Path) -> None:
    publish_dataset(hub, "acme/docs", {"default": {"train": [[{"text": 1, "body": "a"}]]}})
    with pytest.raises(
        ColumnError, match=r"column `text` is int64, not text; .*: body; choose one"
    ):
        prepare(small_recipe(tmp_path, dataset="acme/docs"), tmp_path / "out", settings=REFERENCE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "tokenizer"]


def test_the_first_file_of_a_folder_needs_no_fetching(tmp_path: Path) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    check_first_file(source, Recipe(dataset="folder"))
    assert source.seals == {}


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


def test_a_folder_has_no_config_and_no_branches(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", ["one"])
    with pytest.raises(ValueError, match="leave --config out"):
        resolve_parquet_files(str(tmp_path), "default")
    with pytest.raises(ValueError, match="leave --revision out"):
        resolve_parquet_files(str(tmp_path), None, "main")
