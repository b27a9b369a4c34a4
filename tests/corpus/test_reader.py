"""The documents of a lane come in one order, from any committed state on."""

from pathlib import Path

import pytest
from corpora import folder_of, small_recipe

from pipeline_lib.corpus.batches import NOTHING_VISITED, DocumentBatch, VisitCounts
from pipeline_lib.corpus.reader import (
    AT_THE_START,
    LaneReader,
    check_first_file,
    files_of_lane,
    reader_metadata,
    replay_source_prefix,
)
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.errors import SourceChanged
from pipeline_lib.shuffling import file_order
from pipeline_lib.sources.folder import FolderSource
from pipeline_lib.sources.resolve import resolve_parquet_files


def always() -> bool:
    return True


def reader(folder: Path) -> LaneReader:
    recipe = small_recipe(folder, max_documents=100)
    source = resolve_parquet_files(str(folder_of(folder)))
    return LaneReader(source, recipe, 0, reader_metadata(source, recipe)["files"], 100)


def shown(batches: list[DocumentBatch]) -> list[tuple[list[bytes], int, VisitCounts]]:
    return [(batch.texts, batch.train, batch.seen) for batch in batches]


def test_batches_go_on_behind_any_committed_state(tmp_path: Path) -> None:
    found = list(reader(tmp_path).batches(AT_THE_START, NOTHING_VISITED, always))
    assert len(found) > 3 and found[-1].seen.rows == 100
    for number, batch in enumerate(found):
        rest = reader(tmp_path).batches(batch.shuffle, batch.seen, always)
        assert shown(list(rest)) == shown(found[number + 1 :])


def test_a_replay_gives_the_batches_behind_the_committed_ones(tmp_path: Path) -> None:
    found = list(reader(tmp_path).batches(AT_THE_START, NOTHING_VISITED, always))
    rest = reader(tmp_path).replayed_batches(found[1].seen, always)
    assert shown(list(rest)) == shown(found[2:])


def test_a_replay_of_another_source_is_refused(tmp_path: Path) -> None:
    wrong = VisitCounts(rows=32, source_digest="11" * 32)
    with pytest.raises(SourceChanged, match="reading the first 32 rows again gives"):
        reader(tmp_path).replayed_batches(wrong, always)


def test_a_source_that_ends_early_is_seen_as_far_as_it_goes(tmp_path: Path) -> None:
    batches = reader(tmp_path).batches(AT_THE_START, NOTHING_VISITED, always)
    assert replay_source_prefix(batches, VisitCounts(rows=10_000)).rows == 100


def test_reader_metadata_says_how_rows_are_read_and_ordered(tmp_path: Path) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    found = reader_metadata(source, Recipe(dataset="folder", seed=5, lanes=2))
    names = [file["name"] for file in source.files]
    assert found["files"] == file_order(names, 5)
    assert (found["interface"], found["column"], found["batch_size"]) == (
        "pyarrow.parquet.ParquetFile.iter_batches", "text", 1024,
    )  # fmt: skip
    assert found["shuffle"]["documents"] == [[5, 1], [5, 2]]
    assert found["sizes"] == {name: Path(source.location, name).stat().st_size for name in names}


def test_the_files_are_dealt_to_the_lanes_without_a_rest(tmp_path: Path) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus", files=7)))
    found = reader_metadata(source, Recipe(dataset="folder", lanes=3))
    lanes = [files_of_lane(found, lane, 3) for lane in range(3)]
    assert [len(files) for files in lanes] == [3, 2, 2]
    assert sorted(name for files in lanes for name in files) == sorted(found["files"])


def test_the_first_file_of_a_folder_needs_no_fetching(tmp_path: Path) -> None:
    source = FolderSource(str(folder_of(tmp_path / "corpus")))
    check_first_file(source, Recipe(dataset="folder"))
    assert source.seals == {}
