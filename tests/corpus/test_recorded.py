"""What is recorded of a run: its manifest, else its newest readable checkpoint."""

import shutil
from pathlib import Path

import pytest
from corpora import REFERENCE, small_recipe
from crashes import leave_unfinished

from pipeline_lib.corpus.layout import CHECKPOINT, DISCARDED, PREVIOUS
from pipeline_lib.corpus.pinned import pin
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.recorded import newest_checkpoint, recorded_run
from pipeline_lib.errors import DamagedFile, OutputExists


def test_nothing_is_recorded_where_no_run_was(tmp_path: Path) -> None:
    assert recorded_run(tmp_path / "out") is None
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputExists):
        recorded_run(tmp_path / "out")


def test_an_unfinished_run_records_where_it_read_and_a_published_one_does_not(
    tmp_path: Path,
) -> None:
    recipe = small_recipe(tmp_path)
    pinned = pin(recipe)
    leave_unfinished(recipe, tmp_path / "out")
    found = recorded_run(tmp_path / "out")
    assert found is not None and found.recipe == pinned.recipe.fields()
    assert (found.tokenizer, found.locations) == (pinned.tokenizer.metadata(), pinned.locations)
    prepare(recipe, tmp_path / "out", True, REFERENCE)
    published = recorded_run(tmp_path / "out")
    assert published is not None and published.locations is None
    assert (published.recipe, published.tokenizer) == (found.recipe, found.tokenizer)


def test_the_newest_readable_checkpoint_of_any_lane_counts(tmp_path: Path) -> None:
    staging = leave_unfinished(small_recipe(tmp_path), tmp_path / "out", 4)
    newest = newest_checkpoint(staging)
    (staging / CHECKPOINT).write_bytes(b"{")
    before = newest_checkpoint(staging)
    assert newest is not None and before is not None
    assert newest.generation == before.generation + 1
    (staging / PREVIOUS).write_bytes(b"{")
    with pytest.raises(DamagedFile, match=r"no checkpoint in .*incomplete can be read: .* \| "):
        recorded_run(tmp_path / "out")


def test_lanes_keep_their_checkpoints_in_folders_of_their_own(tmp_path: Path) -> None:
    staging = leave_unfinished(small_recipe(tmp_path, lanes=3), tmp_path / "out", 2)
    assert newest_checkpoint(staging) is not None
    shutil.rmtree(staging / "lane_00")
    found = newest_checkpoint(staging)
    assert found is None or found.lane > 0


def test_a_folder_that_is_being_removed_records_nothing(tmp_path: Path) -> None:
    staging = leave_unfinished(small_recipe(tmp_path), tmp_path / "out")
    (staging / DISCARDED).touch()
    assert recorded_run(tmp_path / "out") is None
