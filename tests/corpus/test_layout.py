"""The names in a run's folders, and that two lanes never share one."""

from pathlib import Path

import pytest

from pipeline_lib.corpus.layout import (
    absolute_output,
    checkpoint_folders,
    lane_folder,
    shard_name,
    shard_pattern,
    snapshot_name,
    staging_folder,
)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_the_working_folder_stands_beside_the_output(output: Path) -> None:
    work = staging_folder(output)
    assert work.name == "out.incomplete" and work.parent == output.parent
    assert lane_folder(work, 0, 1) == work
    assert lane_folder(work, 3, 12) == work / "lane_03"


def test_names_carry_the_lane_only_where_there_are_several() -> None:
    assert shard_name("train", 3, 0, 1) == "train_00003.npy"
    assert shard_name("val", 3, 2, 12) == "val_l02_00003.npy"


@pytest.mark.parametrize("split", ["train", "val"])
def test_the_pattern_of_a_lane_matches_its_own_shards_and_no_other(split: str) -> None:
    for lane in (0, 1, 11):
        for other in (0, 1, 11):
            name = Path(shard_name(split, 3, other, 12))
            assert name.match(shard_pattern(lane, 12)) == (lane == other)
    assert Path(shard_name(split, 3, 0, 1)).match(shard_pattern(0, 1))


def test_snapshots_are_named_by_their_commit() -> None:
    assert (snapshot_name(1), snapshot_name(12)) == ("buffer_000001.bin", "buffer_000012.bin")


def test_checkpoints_may_lie_in_the_staging_folder_and_in_the_folders_of_lanes(
    tmp_path: Path,
) -> None:
    for name in ("lane_01", "lane_00", "open"):
        (tmp_path / name).mkdir()
    found = checkpoint_folders(tmp_path)
    assert found == [tmp_path, tmp_path / "lane_00", tmp_path / "lane_01"]


@pytest.mark.parametrize("name", ["", "..", "a/..", "/"])
def test_an_output_without_a_name_is_a_wrong_argument(name: str) -> None:
    with pytest.raises(ValueError, match="give a folder with a name"):
        absolute_output(name)
    assert absolute_output("out") == Path.cwd() / "out"
