"""A source is pinned, lists its files, and hands out nothing that is not what it listed."""

from pathlib import Path

import pytest
from corpora import REFERENCE, folder_of, rows, small_recipe, write_parquet
from crashes import flip, touch
from loopback_hub import Hub
from loopback_hub.publish import parquet_bytes, publish_dataset
from loopback_hub.repository import Repo

from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.errors import ColumnError, HubError, SourceChanged, SourceError
from pipeline_lib.records import Cursor
from pipeline_lib.shuffling import START, file_order
from pipeline_lib.sources.folder import FolderSource
from pipeline_lib.sources.resolve import (
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


def test_brackets_and_spaces_in_a_path_are_literal(tmp_path: Path) -> None:
    folder = tmp_path / "[D_DATA]" / "run (1)*?"
    write_parquet(folder / "[train]-00000-of-00001.parquet", ["a", "b", "c"])
    assert rows_of(FolderSource(str(folder))) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("name", ["/no/such/folder", "./missing", "~/corpus", "a/b/c", "wikitext"])
def test_what_is_neither_folder_nor_dataset_name_is_refused(name: str) -> None:
    with pytest.raises(SourceError, match="neither an existing folder nor a Hub dataset"):
        resolve_parquet_files(name)


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
        prepare(small_recipe(tmp_path, dataset="acme/docs"), tmp_path / "out", options=REFERENCE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "tokenizer"]


def test_the_first_file_of_a_folder_needs_no_fetching(tmp_path: Path) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    check_first_file(source, Recipe(dataset="folder"))
    assert source.seals == {}


def test_a_folder_has_no_config_and_no_branches(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", ["one"])
    with pytest.raises(ValueError, match="leave --config out"):
        resolve_parquet_files(str(tmp_path), "default")
    with pytest.raises(ValueError, match="leave --revision out"):
        resolve_parquet_files(str(tmp_path), None, "main")
