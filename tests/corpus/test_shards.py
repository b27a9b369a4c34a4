"""Shards are plain .npy files whose every byte is known before it is counted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crashes import flip, seam
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.shards import ShardWriter, check_shard, npy_header, save_array, shard_name
from pipeline_lib.corpus.staging import sweep
from pipeline_lib.digest import sha256_file
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import WriterState

U2, U4 = np.dtype("<u2"), np.dtype("<u4")


def writer(staging: Path, capacity: int = 10, dtype: np.dtype[Any] = U2) -> ShardWriter:
    for room in ("open", "payload"):
        (staging / room).mkdir(parents=True, exist_ok=True)
    recipe = Recipe(dataset="folder", shard_tokens=capacity)
    return ShardWriter(staging, "train", recipe, dtype)


def append(target: ShardWriter, *lengths: int, first: int = 0, dtype: np.dtype[Any] = U2) -> None:
    tokens = np.arange(first, first + sum(lengths), dtype=dtype)
    target.append(tokens, np.array(lengths, np.int64))


def finished(target: ShardWriter) -> WriterState:
    target.flush()
    target.finish()
    return target.summary()


@pytest.mark.parametrize("dtype", [U2, U4, np.dtype("<i4")])
@pytest.mark.parametrize("tokens", [1, 9, 10**6, 10**11])
def test_headers_are_those_numpy_writes(tmp_path: Path, tokens: int, dtype: np.dtype[Any]) -> None:
    header = npy_header(tokens, dtype)
    assert len(header) % 64 == 0
    with (tmp_path / "data.npy").open("wb") as file:
        fields = {"descr": dtype.str, "fortran_order": False, "shape": (tokens,)}
        np.lib.format.write_array_header_1_0(file, fields)
    theirs = (tmp_path / "data.npy").read_bytes()
    assert header.split(b"}")[0] == theirs.split(b"}")[0]


def test_a_saved_array_opens_memory_mapped(tmp_path: Path) -> None:
    array = np.arange(7, dtype=U4)[::2]
    written = save_array(tmp_path / "data.npy", array)
    loaded = np.load(tmp_path / "data.npy", mmap_mode="r")
    assert loaded.dtype == U4 and loaded.tolist() == [0, 2, 4, 6]
    assert written.sha256 == sha256_file(tmp_path / "data.npy")


def test_names_carry_the_lane_only_where_there_are_several() -> None:
    assert shard_name("train", 3, 0, 1) == "train_00003.npy"
    assert shard_name("val", 3, 2, 12) == "val_l02_00003.npy"


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
        sweep(staging, "*.npy", second.names())
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


def damaged(path: Path, how: str) -> None:
    data = path.read_bytes()
    changed = {
        "missing": None,
        "empty": b"",
        "header only": data[:128],
        "one byte short": data[:-1],
        "one byte long": data + b"\0",
        "other header": data.replace(b"<u2", b"<i2"),
    }[how]
    path.unlink()
    if changed is not None:
        path.write_bytes(changed)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missing", "is missing"),
        ("empty", "has 0 bytes, 148 were recorded"),
        ("header only", "has 128 bytes, 148 were recorded"),
        ("one byte short", "has 147 bytes, 148 were recorded"),
        ("one byte long", "has 149 bytes, 148 were recorded"),
        ("other header", "does not begin with the recorded header"),
    ],
)
def test_every_kind_of_damage_is_found_without_hashing(
    tmp_path: Path, how: str, message: str
) -> None:
    target = writer(tmp_path, 10)
    append(target, 10)
    shard = finished(target)["shards"][0]
    damaged(tmp_path / "payload" / shard["file"], how)
    with pytest.raises(DamagedFile, match=message):
        check_shard(tmp_path / "payload" / shard["file"], shard, U2, full=False)


def test_the_last_short_shard_leaves_the_open_file_for_the_commit_before(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    append(target, 5)
    target.finish()
    assert (tmp_path / "open" / "train_00000.npy").exists()
    assert np.load(tmp_path / "payload" / "train_00000.npy").tolist() == [0, 1, 2, 3, 4]


def test_an_empty_split_has_no_shard(tmp_path: Path) -> None:
    target = writer(tmp_path, 10)
    target.append(np.empty(0, U2), np.empty(0, np.int64))
    state = finished(target)
    assert state == WriterState(shards=[], open=None, documents=0, tokens=0)
