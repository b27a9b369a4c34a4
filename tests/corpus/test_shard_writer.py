"""A writer fills shards, and goes on from any commit to the same bytes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crashes import flip, seam
from durability import broken_promises
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_lib.corpus.layout import OPEN, PAYLOAD
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.shard_writer import ShardWriter, new_writers, restore_writers
from pipeline_lib.corpus.shards import check_shard
from pipeline_lib.corpus.staging import remove_unnamed_shards
from pipeline_lib.corpus.state import BySplit
from pipeline_lib.digest import sha256_file
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import WriterState
from pipeline_lib.storage import atomic

U2 = np.dtype("<u2")


def writer(staging: Path, capacity: int = 10, dtype: np.dtype[Any] = U2) -> ShardWriter:
    for room in (OPEN, PAYLOAD):
        (staging / room).mkdir(parents=True, exist_ok=True)
    recipe = Recipe(dataset="folder", shard_tokens=capacity)
    return ShardWriter(staging, "train", recipe, dtype)


def append(target: ShardWriter, *lengths: int, first: int = 0, dtype: np.dtype[Any] = U2) -> None:
    tokens = np.arange(first, first + sum(lengths), dtype=dtype)
    rows = target.documents + np.arange(len(lengths), dtype=np.int64)
    target.append(tokens, np.array(lengths, np.int64), rows)


def finished(target: ShardWriter) -> WriterState:
    target.flush()
    target.finish()
    return target.summary()


@given(
    documents=st.lists(st.lists(st.integers(1, 25), max_size=6), max_size=6),
    capacity=st.integers(1, 12),
)
@settings(max_examples=60)
def test_shards_joined_are_the_documents_and_all_but_the_last_are_full(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[int]], capacity: int
) -> None:
    staging, position = tmp_path_factory.mktemp("staging"), 0
    target = writer(staging, capacity)
    with seam():
        for batch in documents:
            append(target, *batch, first=position)
            position += sum(batch)
        state = finished(target)
    arrays = [np.load(staging / "payload" / shard["file"]) for shard in state["shards"]]
    assert [token for array in arrays for token in array] == list(range(position))
    assert all(len(array) == capacity for array in arrays[:-1])
    assert state["tokens"] == position and state["documents"] == sum(map(len, documents))


def test_each_shard_names_its_first_document_and_where_in_it_it_begins(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    append(target, 4, 3)
    append(target, 25, 1, first=7)
    shards = finished(target)["shards"]
    places = [(s["first_document"], s["first_token"], s["tokens"]) for s in shards]
    assert places == [(0, 0, 10), (2, 3, 10), (2, 13, 10), (2, 23, 3)]


def test_a_document_that_ends_with_its_shard_leaves_the_next_to_begin_with_a_new_one(
    tmp_path: Path,
) -> None:
    target = writer(tmp_path, 10)
    append(target, 4, 6)
    assert target.summary()["open"] is None
    append(target, 5, first=10)
    shards = finished(target)["shards"]
    assert [(s["first_document"], s["first_token"]) for s in shards] == [(0, 0), (2, 0)]


def test_recorded_hashes_are_those_of_the_files(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    append(target, 12, 13)
    for shard in finished(target)["shards"]:
        path = tmp_path / "payload" / shard["file"]
        assert sha256_file(path) == shard["sha256"]
        check_shard(path, shard, U2)


def test_the_open_shard_is_not_in_the_payload_until_it_is_full(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    append(target, 12)
    assert [path.name for path in (tmp_path / "payload").iterdir()] == ["train_00000.npy"]
    assert [path.name for path in (tmp_path / "open").iterdir()] == ["train_00001.npy"]
    assert target.names() == {"train_00000.npy", "train_00001.npy"}
    target.close()


def test_a_writer_goes_on_from_any_commit_to_the_same_bytes(tmp_path: Path) -> None:
    golden = writer(tmp_path / "golden", 10)
    append(golden, *[7] * 9)
    expected = finished(golden)
    for number in range(1, 9):
        staging = tmp_path / str(number)
        first = writer(staging, 10)
        append(first, *[7] * number)
        first.flush()
        state = first.summary()
        append(first, 30, first=500)  # never committed: cut off, or reopened if it was filled
        first.close()
        second = writer(staging, 10)
        second.restore(state, ())
        second.settle()
        remove_unnamed_shards(staging, 0, 1, second.names())
        append(second, *[7] * (9 - number), first=7 * number)
        assert finished(second) == expected, number


def test_restoring_changes_nothing_before_it_is_settled(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    append(target, 5)
    target.flush()
    state = target.summary()
    append(target, 9)
    target.close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.npy")}
    again = writer(tmp_path, 10)
    again.restore(state, ())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.npy")} == before
    again.settle()
    assert (tmp_path / "open" / "train_00000.npy").stat().st_size == 138
    again.close()


def test_restoring_names_the_shard_that_is_damaged(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    append(target, 25)
    target.flush()
    state = target.summary()
    target.close()
    flip(tmp_path / "payload" / "train_00001.npy", -1)
    with pytest.raises(DamagedFile, match=r"train_00001\.npy: SHA-256 is \w+, \w+ was recorded"):
        writer(tmp_path, 10).restore(state, ())
    writer(tmp_path, 10).restore(state, {"train_00001.npy"})


def test_restoring_notices_a_change_in_the_committed_part_of_the_open_shard(
    tmp_path: Path,
) -> None:
    target = writer(tmp_path, 10)
    append(target, 5)
    target.flush()
    state = target.summary()
    target.close()
    flip(tmp_path / "open" / "train_00000.npy", -1)
    with pytest.raises(DamagedFile, match="committed 138 bytes"):
        writer(tmp_path, 10).restore(state, ())


def test_restoring_says_that_the_open_shard_is_gone(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    append(target, 5)
    target.flush()
    state = target.summary()
    target.close()
    (tmp_path / "open" / "train_00000.npy").unlink()
    with pytest.raises(DamagedFile, match=r"train_00000\.npy is gone; if a copy exists"):
        writer(tmp_path, 10).restore(state, ())


def test_the_last_short_shard_leaves_the_open_file_for_the_commit_before(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    append(target, 5)
    target.finish()
    assert (tmp_path / "open" / "train_00000.npy").exists()
    assert np.load(tmp_path / "payload" / "train_00000.npy").tolist() == [0, 1, 2, 3, 4]


def test_an_empty_split_has_no_shard(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    target.append(np.empty(0, U2), np.empty(0, np.int64), np.empty(0, np.int64))
    state = finished(target)
    assert state == WriterState(shards=[], open=None, documents=0, tokens=0)


def test_both_splits_are_restored_and_their_tokens_counted(tmp_path: Path) -> None:
    for room in (OPEN, PAYLOAD):
        (tmp_path / room).mkdir()
    recipe = Recipe(dataset="folder", shard_tokens=10)
    before = new_writers(tmp_path, recipe, U2, 0)
    append(before["train"], 12)
    append(before["val"], 3)
    for writer in before.values():
        writer.flush()
        writer.close()
    states = BySplit(train=before["train"].summary(), val=before["val"].summary())
    after = new_writers(tmp_path, recipe, U2, 0)
    restore_writers(after, states, ())
    assert {split: writer.summary() for split, writer in after.items()} == states
    for writer in after.values():
        writer.close()
    states["val"]["tokens"] += 1
    with pytest.raises(DamagedFile, match="counts 4 val tokens but its shards hold 3"):
        restore_writers(new_writers(tmp_path, recipe, U2, 0), states, ())


@pytest.mark.parametrize("last", [1, 2])  # the last shard is short, or full
def test_after_a_power_cut_every_commit_has_its_shards(tmp_path: Path, last: int) -> None:
    target = writer(tmp_path, 10)

    def write() -> None:
        for lengths in ([3], [3, 3], [4, 5], [30], [last]):
            append(target, *lengths)
            target.flush()
            atomic.save_json(tmp_path / "commit.json", target.summary())
        target.finish()
        atomic.save_json(tmp_path / "commit.json", target.summary())

    assert broken_promises(tmp_path, write) == []


def test_a_move_of_which_a_power_cut_left_both_names_is_undone(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    append(target, 7)
    target.flush()
    state = target.summary()
    target.close()
    (tmp_path / PAYLOAD / "train_00000.npy").hardlink_to(tmp_path / OPEN / "train_00000.npy")
    again = writer(tmp_path, 10)
    again.restore(state, ())
    again.settle()
    append(again, 8, first=7)
    shards = finished(again)["shards"]
    tokens = [np.load(tmp_path / PAYLOAD / shard["file"]).tolist() for shard in shards]
    assert tokens == [list(range(10)), list(range(10, 15))]
