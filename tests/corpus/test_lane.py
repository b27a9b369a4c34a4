"""A lane that is killed anywhere and resumed ends in the bytes of one that was not."""

import dataclasses
import itertools
import json
import logging
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from corpora import contents, folder_of, small_recipe
from crashes import (
    CALLS,
    HALVED,
    Killed,
    committing,
    flip,
    leave_unfinished,
    run,
    seam,
    survives,
    touch,
)

from pipeline_lib import digest
from pipeline_lib.corpus.layout import CHECKPOINT, MANIFEST
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.verify import verify
from pipeline_lib.errors import Interrupted, SourceChanged
from pipeline_lib.records import LaneProgress


class World(NamedTuple):
    """A recipe, and what an undisturbed run of it publishes."""

    recipe: Recipe
    golden: dict[str, bytes]


def tiny(folder: Path, **changes: Any) -> Recipe:
    """Some forty documents: four batches, three shards."""
    return small_recipe(folder, **({"max_documents": 50, "shard_tokens": 400} | changes))


def golden_run(folder: Path, recipe: Recipe) -> World:
    run(recipe, folder / "golden")
    return World(recipe, contents(folder / "golden"))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("short")
    return golden_run(folder, tiny(folder))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """120 rows, eight batches, seven shards."""
    folder = tmp_path_factory.mktemp("world")
    return golden_run(folder, small_recipe(folder))


def killed_everywhere(recipe: Recipe, golden: dict[str, bytes], target: Path, **kind: Any) -> int:
    """Kill a run at each durable call and its resume at another, then finish and compare."""
    step = kind.pop("step", 1)
    with seam(watch=target.parent) as watched:
        run(recipe, target)
    shutil.rmtree(target)
    torn = kind.get("torn", False)
    halves = HALVED if torn else CALLS
    calls = [n for n in watched.places() if watched.names[n - 1] in halves]
    for at in calls[::step]:
        assert not survives(lambda: run(recipe, target), at, **kind)
        survives(lambda: run(recipe, target), 1 + at * 37 % 60, **kind)
        assert survives(lambda: run(recipe, target), -1)
        assert contents(target) == golden, f"after death at call {at}"
        assert [path.name for path in target.parent.iterdir()] == [target.name], f"at call {at}"
        shutil.rmtree(target)
    return len(calls)


def test_death_before_any_durable_call_and_again_during_the_resume_changes_no_byte(
    short: World, tmp_path: Path
) -> None:
    assert killed_everywhere(*short, tmp_path / "out") > 70


def test_death_within_any_write_and_again_during_the_resume_changes_no_byte(
    short: World, tmp_path: Path
) -> None:
    assert killed_everywhere(*short, tmp_path / "out", torn=True) > 30


def test_death_anywhere_in_the_resume_itself_changes_no_byte(short: World, tmp_path: Path) -> None:
    leave_unfinished(short.recipe, tmp_path / "left" / "out", 3)
    target = tmp_path / "work" / "out"
    shutil.copytree(tmp_path / "left", target.parent)
    with seam(watch=target.parent) as watched:
        run(short.recipe, target)
    for at in watched.places():
        shutil.rmtree(target.parent)
        shutil.copytree(tmp_path / "left", target.parent)
        assert not survives(lambda: run(short.recipe, target), at)
        assert survives(lambda: run(short.recipe, target), -1)
        assert contents(target) == short.golden, f"after death at call {at}"
    assert len(watched.places()) > 40


def test_death_anywhere_in_three_lanes_changes_no_byte(tmp_path: Path) -> None:
    recipe = tiny(tmp_path, lanes=3, tokenization_batch_size=8)
    golden = golden_run(tmp_path, recipe).golden
    (tmp_path / "work").mkdir()
    assert killed_everywhere(recipe, golden, tmp_path / "work" / "out", step=6) > 100


SMALL = [
    {"tokenization_batch_size": 1, "max_documents": 23},
    {"shuffle_buffer": 1, "tokenization_batch_size": 5},
    {"shuffle_buffer": 100_000, "tokenization_batch_size": 7},
    {"shuffle_buffer_bytes": 300, "tokenization_batch_size": 5},
    {"shard_tokens": 7, "max_documents": 30, "tokenization_batch_size": 5},
    {"max_documents": None, "train_tokens": 600, "tokenization_batch_size": 3},
    {"tokenization_batch_bytes": 200, "max_documents": 40},
]


@pytest.mark.parametrize("changes", SMALL, ids=lambda changes: next(iter(changes)))
def test_death_in_every_batch_of_one_run_changes_no_byte(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    recipe, target = small_recipe(tmp_path, **changes), tmp_path / "out"
    golden = golden_run(tmp_path, recipe).golden

    def die_in_the_second_batch() -> Callable[[LaneProgress], None]:
        batches = itertools.count(1)

        def count(progress: LaneProgress) -> None:
            if next(batches) == 2:
                raise Killed

        return count

    deaths = 0
    while not target.exists():
        try:
            run(recipe, target, on_progress=die_in_the_second_batch())
        except Killed:
            deaths += 1
    assert contents(target) == golden and deaths > 3


def test_a_resumed_run_says_where_it_goes_on_and_that_is_not_the_start(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leave_unfinished(world.recipe, tmp_path / "out", 4)
    with caplog.at_level(logging.INFO, "pipeline_lib"):
        run(world.recipe, tmp_path / "out")
    assert "lane 0 goes on at row" in caplog.text and "48 rows visited" in caplog.text


def test_a_resumed_run_reads_no_row_again(world: World, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "corpus")
    recipe = small_recipe(tmp_path)
    staging = leave_unfinished(recipe, tmp_path / "out", 6)
    state = json.loads((staging / CHECKPOINT).read_bytes())
    first = folder / state["reader"]["files"][0]
    assert state["cursor"][0] > 0
    first.chmod(0)
    damage_data_pages(first)
    assert contents_of_run(recipe, tmp_path / "out") == world.golden


def damage_data_pages(path: Path) -> None:
    """Spoil a file's data but neither its size, its footer nor its time of change."""
    stat = path.stat()
    path.chmod(0o644)
    flip(path, 6)
    flip(path, 30)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def contents_of_run(recipe: Recipe, target: Path, **options: Any) -> dict[str, bytes]:
    run(recipe, target, **options)
    return contents(target)


BOUNDS = [{}, {"max_documents": 50}, {"max_documents": None, "train_tokens": 900}]


@pytest.mark.parametrize("bound", BOUNDS, ids=["all", "rows", "tokens"])
def test_a_run_that_is_finished_but_not_published_reads_no_text(
    tmp_path: Path, bound: dict[str, Any]
) -> None:
    recipe = small_recipe(tmp_path, **bound)
    with seam() as watched:
        run(recipe, tmp_path / "golden")
    finished = [n for n, name in enumerate(watched.names, 1) if name == "replace"][-3]
    assert not survives(lambda: run(recipe, tmp_path / "out"), finished + 2)
    state = json.loads((tmp_path / "out.incomplete" / CHECKPOINT).read_bytes())
    assert state["finished"] and state["writers"]["train"]["open"]
    for path in (tmp_path / "corpus").iterdir():
        damage_data_pages(path)
    metadata = run(recipe, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "golden")
    assert [e["name"] for e in metadata["measured"]["encoders"]] == ["tokenizers"]


@pytest.mark.parametrize("batches", [1, 2, 5, 8])
def test_a_replay_from_anywhere_ends_in_the_same_bytes(
    world: World, tmp_path: Path, batches: int
) -> None:
    leave_unfinished(world.recipe, tmp_path / "out", batches)
    assert contents_of_run(world.recipe, tmp_path / "out", replay=True) == world.golden


def test_a_replay_over_a_changed_source_is_refused(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    staging = leave_unfinished(recipe, tmp_path / "out", 5)
    fields = json.loads((staging / CHECKPOINT).read_bytes())
    fields["source_digest"] = "ab" * 32
    reseal(staging / CHECKPOINT, fields)
    with pytest.raises(SourceChanged, match="reading the first 64 rows again gives"):
        run(recipe, tmp_path / "out", replay=True)


def reseal(path: Path, fields: dict[str, Any]) -> None:
    """Write a checkpoint whose own digest is right, as a bug or a foreign hand might."""
    fields.pop("checkpoint_sha256", None)
    path.unlink()
    path.write_text(json.dumps({**fields, "checkpoint_sha256": digest.of_json(fields)}))


@pytest.mark.parametrize("change", ["changed", "shortened", "grown", "removed"])
def test_a_source_file_that_changed_is_named(tmp_path: Path, change: str) -> None:
    recipe = small_recipe(tmp_path)
    staging = leave_unfinished(recipe, tmp_path / "out", 6)
    first = json.loads((staging / CHECKPOINT).read_bytes())["reader"]["files"][0]
    path = tmp_path / "corpus" / first
    if change == "changed":
        flip(path, 30)
        touch(path)
    elif change == "removed":
        path.unlink()
    else:
        count = 20 if change == "shortened" else 60
        folder_of(tmp_path / "again", count, 1)
        shutil.copy(tmp_path / "again" / "part-0.parquet", path)
    with pytest.raises(SourceChanged, match=f"{first}.*start a fresh run"):
        run(recipe, tmp_path / "out")
    with pytest.raises(SourceChanged, match=first):
        run(recipe, tmp_path / "out", replay=True)


def test_a_source_file_of_equal_size_but_another_footer_is_named(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    staging = leave_unfinished(recipe, tmp_path / "out", 2)
    last = json.loads((staging / CHECKPOINT).read_bytes())["reader"]["files"][-1]
    path = tmp_path / "corpus" / last
    data = path.read_bytes()
    assert data.count(b"parquet-cpp-arrow") == 1
    path.write_bytes(data.replace(b"parquet-cpp-arrow", b"parquet-cpp-arrov"))
    with pytest.raises(
        SourceChanged, match=rf"{last}: was \d+ bytes with footer \w+, is \d+ bytes"
    ):
        run(recipe, tmp_path / "out")


def test_a_touched_source_with_equal_bytes_goes_on(world: World, tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    leave_unfinished(recipe, tmp_path / "out", 6)
    for path in (tmp_path / "corpus").iterdir():
        touch(path)
    assert contents_of_run(recipe, tmp_path / "out") == world.golden


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_run_behind_a_commit(
    world: World, tmp_path: Path, signum: signal.Signals
) -> None:
    recipe = dataclasses.replace(world.recipe, tokenization_batch_size=2)

    def interrupt(progress: LaneProgress) -> None:
        if progress.rows == 10:
            os.kill(os.getpid(), signum)

    slow = dataclasses.replace(committing(on_progress=interrupt), checkpoint_interval=10**9)
    with pytest.raises(
        Interrupted, match=rf"signal {int(signum)} after .* rows, all of them commit"
    ):
        prepare(recipe, tmp_path / "out", options=slow)
    fields = json.loads((tmp_path / "out.incomplete" / CHECKPOINT).read_bytes())
    assert 10 <= fields["source_rows_visited"] < 60 and fields["generation"] == 2
    run(recipe, tmp_path / "out")
    run(recipe, tmp_path / "undisturbed")
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_commits_follow_the_clock_and_not_the_shards(world: World, tmp_path: Path) -> None:
    seen: list[int] = []
    path = tmp_path / "out.incomplete" / CHECKPOINT

    def look(progress: LaneProgress) -> None:
        seen.append(json.loads(path.read_bytes())["generation"])

    calm = dataclasses.replace(committing(on_progress=look), checkpoint_interval=10**9)
    prepare(world.recipe, tmp_path / "out", options=calm)
    assert set(seen) == {1} and contents(tmp_path / "out") == world.golden


def test_a_checkpoint_names_all_that_the_documentation_lists(world: World, tmp_path: Path) -> None:
    staging = leave_unfinished(world.recipe, tmp_path / "out", 5)
    fields = json.loads((staging / CHECKPOINT).read_bytes())
    assert set(fields) >= {
        "checkpoint_version", "recipe", "tokenizer", "reader", "versions", "encoders",
        "source_rows_visited", "draws", "cursor", "source_digest", "writers", "buffer",
        "elapsed_seconds", "finished", "nulls", "blanks", "source_files",
    }  # fmt: skip
    assert (fields["source_rows_visited"], fields["finished"]) == (64, False)
    assert fields["recipe"]["revision"].startswith("sha256:")
    assert set(fields["buffer"]) == {"file", "documents", "sha256"}
    assert set(fields["writers"]["train"]["open"]) >= {"file", "tokens", "sha256"}
    assert fields["encoders"][0]["name"] == "tokenizers" and fields["elapsed_seconds"] > 0


def test_elapsed_time_is_carried_over_from_run_to_run(world: World, tmp_path: Path) -> None:
    leave_unfinished(world.recipe, tmp_path / "out", 5)
    before = json.loads((tmp_path / "out.incomplete" / CHECKPOINT).read_bytes())["elapsed_seconds"]
    metadata = run(world.recipe, tmp_path / "out")
    assert metadata["measured"]["elapsed_seconds"] > before > 5


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_split_that_ends_with_a_full_shard_leaves_the_other_its_last_one(
    short: World, tmp_path: Path, split: str
) -> None:
    tokens = json.loads(short.golden[MANIFEST])["counts"][f"{split}_tokens"]
    recipe = dataclasses.replace(short.recipe, shard_tokens=tokens)
    counts = run(recipe, tmp_path / "out")["counts"]
    assert counts == json.loads(short.golden[MANIFEST])["counts"]
    assert verify(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("bounds", "reached"),
    [({}, None), ({"max_documents": None, "train_tokens": 10**6}, False)],
)
def test_a_checkpoint_says_of_a_token_bound_whether_it_was_reached_and_none_without_one(
    short: World, tmp_path: Path, bounds: dict[str, Any], reached: bool | None
) -> None:
    recipe = dataclasses.replace(short.recipe, **bounds)
    staging = leave_unfinished(recipe, tmp_path / "out", 3)
    fields = json.loads((staging / CHECKPOINT).read_bytes())
    assert fields["train_token_target_reached"] is reached
    assert run(recipe, tmp_path / "out")["train_token_target_reached"] is reached
