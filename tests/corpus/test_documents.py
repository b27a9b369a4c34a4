"""The documents of a lane come in one order, from any committed state on."""

from pathlib import Path

import pytest
from corpora import folder_of, small_recipe

from pipeline_lib import shuffling
from pipeline_lib.corpus.batches import DocumentBatch, VisitCounts
from pipeline_lib.corpus.documents import CommitClock, Documents, part_of_lane, replay_source_prefix
from pipeline_lib.errors import SourceChanged
from pipeline_lib.shuffling import ShuffleState
from pipeline_lib.signals import StopRequest
from pipeline_lib.sources.resolve import reader_metadata, resolve_parquet_files

START = ShuffleState(shuffling.START, 0, [], False)


def always() -> bool:
    return True


def documents(folder: Path) -> Documents:
    recipe = small_recipe(folder, max_documents=100)
    source = resolve_parquet_files(str(folder_of(folder)))
    return Documents(source, recipe, 0, reader_metadata(source, recipe)["files"])


def shown(batches: list[DocumentBatch]) -> list[tuple[list[bytes], int, VisitCounts]]:
    return [(batch.texts, batch.train, batch.seen) for batch in batches]


def test_batches_go_on_behind_any_committed_state(tmp_path: Path) -> None:
    found = list(documents(tmp_path).batches(START, VisitCounts(), always))
    assert len(found) > 3 and found[-1].seen.rows == 100
    for number, batch in enumerate(found):
        rest = documents(tmp_path).batches(batch.shuffle, batch.seen, always)
        assert shown(list(rest)) == shown(found[number + 1 :])


def test_a_replay_gives_the_batches_behind_the_committed_ones(tmp_path: Path) -> None:
    found = list(documents(tmp_path).batches(START, VisitCounts(), always))
    rest = documents(tmp_path).behind(found[1].seen, always)
    assert shown(list(rest)) == shown(found[2:])


def test_a_replay_of_another_source_is_refused(tmp_path: Path) -> None:
    wrong = VisitCounts(rows=32, source_digest="11" * 32)
    with pytest.raises(SourceChanged, match="reading the first 32 rows again gives"):
        documents(tmp_path).behind(wrong, always)


def test_a_source_that_ends_early_is_seen_as_far_as_it_goes(tmp_path: Path) -> None:
    batches = documents(tmp_path).batches(START, VisitCounts(), always)
    assert replay_source_prefix(batches, VisitCounts(rows=10_000)).rows == 100


def test_a_commit_is_due_after_the_interval_or_a_signal() -> None:
    now, stop = [0.0], StopRequest()
    due = CommitClock(lambda: now[0], 60.0, stop)
    assert not due()
    now[0] = 60.0
    assert due() and not due()
    stop.signum = 15
    assert due() and due()


def test_the_parts_of_the_lanes_add_up_to_the_bound() -> None:
    for total in (0, 1, 7, 100):
        parts = [part_of_lane(total, lane, 4) for lane in range(4)]
        assert sum(part or 0 for part in parts) == total
    assert part_of_lane(None, 0, 4) is None
