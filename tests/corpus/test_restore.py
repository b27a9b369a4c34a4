"""A lane goes back to its last sound commit, or says which file is damaged and stops."""

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from corpora import contents, small_recipe
from crashes import Killed, flip, leave_unfinished, run

from pipeline_lib import digest
from pipeline_lib.corpus.checkpoint import read_checkpoint
from pipeline_lib.corpus.layout import CHECKPOINT, PREVIOUS
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import LaneProgress


class World(NamedTuple):
    """A recipe, and what an undisturbed run of it publishes."""

    recipe: Recipe
    golden: dict[str, bytes]


def golden_run(folder: Path, recipe: Recipe) -> World:
    run(recipe, folder / "golden")
    return World(recipe, contents(folder / "golden"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """120 rows, eight batches, seven shards."""
    folder = tmp_path_factory.mktemp("world")
    return golden_run(folder, small_recipe(folder))


def contents_of_run(recipe: Recipe, target: Path, **options: Any) -> dict[str, bytes]:
    run(recipe, target, **options)
    return contents(target)


def test_a_checkpoint_copied_from_another_lane_is_not_taken_for_its_own(tmp_path: Path) -> None:
    recipe = small_recipe(
        tmp_path, max_documents=50, shard_tokens=400, lanes=3, tokenization_batch_size=8
    )
    staging = leave_unfinished(recipe, tmp_path / "out", batches=1, lane=1)
    for name in (CHECKPOINT, PREVIOUS):
        shutil.copy(staging / "lane_00" / name, staging / "lane_01" / name)
    with pytest.raises(DamagedFile, match="belongs to lane 0, expected lane 1; it was copied"):
        run(recipe, tmp_path / "out")


DAMAGES: dict[str, Any] = {
    "half": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "changed": lambda data: data.replace(b'"draws": ', b'"draws": 1', 1),
    "not an object": lambda data: b"[]",
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_checkpoint_falls_back_with_a_warning_and_ends_in_the_same_bytes(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    staging = leave_unfinished(world.recipe, tmp_path / "out", 5)
    path = staging / CHECKPOINT
    path.write_bytes(DAMAGES[how](path.read_bytes()))
    assert contents_of_run(world.recipe, tmp_path / "out") == world.golden
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert str(path) in warnings[0]


def test_a_damaged_generation_never_becomes_the_one_to_fall_back_to(
    world: World, tmp_path: Path
) -> None:
    staging = leave_unfinished(world.recipe, tmp_path / "out", 3)
    for _ in range(3):
        (staging / CHECKPOINT).write_bytes(b"{")
        seen = itertools.count(1)

        def die(progress: LaneProgress, seen: Iterator[int] = seen) -> None:
            if next(seen) == 3:
                raise Killed

        with pytest.raises(Killed):
            run(world.recipe, tmp_path / "out", on_progress=die)
        assert (staging / "checkpoint.damaged.json").read_bytes() == b"{"
        for name in (CHECKPOINT, PREVIOUS):
            read_checkpoint(staging / name)
    assert contents_of_run(world.recipe, tmp_path / "out") == world.golden


@pytest.mark.parametrize("what", ["changed", "missing"])
def test_a_damaged_snapshot_falls_back_to_the_generation_before(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    staging = leave_unfinished(world.recipe, tmp_path / "out", 5)
    path = staging / json.loads((staging / CHECKPOINT).read_bytes())["buffer"]["file"]
    if what == "changed":
        flip(path, 3)
    else:
        path.unlink()
    assert contents_of_run(world.recipe, tmp_path / "out") == world.golden
    assert path.name in caplog.text


def test_a_damaged_shard_that_was_filled_since_the_generation_before_is_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = small_recipe(tmp_path, shard_tokens=60)
    golden = golden_run(tmp_path, recipe).golden
    staging = leave_unfinished(recipe, tmp_path / "out", 5)
    now, before = (
        json.loads((staging / name).read_bytes())["writers"]["train"]["shards"]
        for name in (CHECKPOINT, PREVIOUS)
    )
    assert len(now) > len(before) + 1
    flip(staging / "payload" / now[-1]["file"], -1)
    assert contents_of_run(recipe, tmp_path / "out") == golden
    assert now[-1]["file"] in caplog.text


def snapshot_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", DAMAGES)
def test_two_damaged_checkpoints_stop_the_run_and_nothing_is_touched(
    world: World, tmp_path: Path, how: str
) -> None:
    staging = leave_unfinished(world.recipe, tmp_path / "out", 5)
    for name in (CHECKPOINT, PREVIOUS):
        (staging / name).write_bytes(DAMAGES[how]((staging / name).read_bytes()))
    (staging / "lock").unlink()
    before = snapshot_of(staging)
    with pytest.raises(DamagedFile, match=r"checkpoint\.json .*checkpoint\.prev\.json "):
        run(world.recipe, tmp_path / "out")
    (staging / "lock").unlink()
    assert snapshot_of(staging) == before


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_damaged_shard_of_both_generations_stops_the_run_and_nothing_is_touched(
    tmp_path: Path, split: str
) -> None:
    recipe = small_recipe(tmp_path, shard_tokens=60)
    staging = leave_unfinished(recipe, tmp_path / "out", 6)
    flip(staging / "payload" / f"{split}_00000.npy", -1)
    (staging / "lock").unlink()
    before = snapshot_of(staging)
    with pytest.raises(DamagedFile, match=rf"no generation .*{split}_00000\.npy: SHA-256 is"):
        run(recipe, tmp_path / "out")
    (staging / "lock").unlink()
    assert snapshot_of(staging) == before


def test_two_damaged_snapshots_stop_the_run_and_name_the_replay(
    world: World, tmp_path: Path
) -> None:
    staging = leave_unfinished(world.recipe, tmp_path / "out", 5)
    for path in staging.glob("buffer_*.bin"):
        flip(path, 3)
    with pytest.raises(DamagedFile, match=r"only the snapshot is damaged, give --resume --replay"):
        run(world.recipe, tmp_path / "out")
    assert contents_of_run(world.recipe, tmp_path / "out", replay=True) == world.golden


def reseal(path: Path, fields: dict[str, Any]) -> None:
    """Write a checkpoint whose own digest is right, as a bug or a foreign hand might."""
    fields.pop("checkpoint_sha256", None)
    path.unlink()
    path.write_text(json.dumps({**fields, "checkpoint_sha256": digest.of_json(fields)}))


def test_token_counts_that_do_not_add_up_are_damage(world: World, tmp_path: Path) -> None:
    staging = leave_unfinished(world.recipe, tmp_path / "out", 5)
    for name in (CHECKPOINT, PREVIOUS):
        fields = json.loads((staging / name).read_bytes())
        fields["writers"]["train"]["tokens"] += 1
        reseal(staging / name, fields)
    with pytest.raises(DamagedFile, match=r"counts [\d,]+ train tokens but its shards hold [\d,]+"):
        run(world.recipe, tmp_path / "out")


def test_recent_verification_hashes_only_the_shards_since_the_generation_before(
    world: World, tmp_path: Path
) -> None:
    staging = leave_unfinished(world.recipe, tmp_path / "out", 6)
    old = staging / "payload" / "train_00000.npy"
    flip(old, -1)
    with pytest.raises(DamagedFile, match=r"train_00000\.npy"):
        run(world.recipe, tmp_path / "out", verify="all")
    leave_unfinished(world.recipe, tmp_path / "other", 6)
    flip(tmp_path / "other.incomplete" / "payload" / "train_00000.npy", -1)
    run(world.recipe, tmp_path / "other", verify="recent")


@pytest.mark.parametrize("gone", [CHECKPOINT, PREVIOUS])
@pytest.mark.parametrize("how", [*DAMAGES, "absent"])
def test_recent_verification_trusts_no_shard_where_a_generation_can_not_be_read(
    world: World, tmp_path: Path, gone: str, how: str
) -> None:
    staging = leave_unfinished(world.recipe, tmp_path / "out", 6)
    if how == "absent":
        (staging / gone).unlink()
    else:
        data = DAMAGES[how]((staging / gone).read_bytes())
        (staging / gone).unlink()  # its second name keeps the old content
        (staging / gone).write_bytes(data)
    flip(staging / "payload" / "train_00000.npy", -1)
    with pytest.raises(DamagedFile, match=r"train_00000\.npy: SHA-256 is"):
        run(world.recipe, tmp_path / "out", verify="recent")
    flip(staging / "payload" / "train_00000.npy", -1)
    assert contents_of_run(world.recipe, tmp_path / "out", verify="recent") == world.golden


def test_a_field_that_is_missing_in_both_generations_is_named(world: World, tmp_path: Path) -> None:
    staging = leave_unfinished(world.recipe, tmp_path / "out", 5)
    for name in (CHECKPOINT, PREVIOUS):
        fields = json.loads((staging / name).read_bytes())
        del fields["writers"]["val"]
        reseal(staging / name, fields)
    with pytest.raises(DamagedFile, match=r"checkpoint\.json .* missing required field `val`"):
        run(world.recipe, tmp_path / "out")
