"""Shards are plain .npy files whose every byte is known before it is counted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline_lib.corpus.shards import check_shard, npy_header, save_array
from pipeline_lib.digest import sha256_file
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import ShardRecord

U2, U4 = np.dtype("<u2"), np.dtype("<u4")


def saved(path: Path, tokens: int = 10) -> ShardRecord:
    written = save_array(path, np.arange(tokens, dtype=U2))
    return ShardRecord(
        file=path.name, tokens=tokens, sha256=written.sha256, first_document=0, first_token=0
    )


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
    shard = saved(tmp_path / "a.npy")
    damaged(tmp_path / "a.npy", how)
    with pytest.raises(DamagedFile, match=message):
        check_shard(tmp_path / "a.npy", shard, U2, full=False)


def test_a_changed_token_is_found_by_hashing_alone(tmp_path: Path) -> None:
    shard = saved(tmp_path / "a.npy")
    save_array(tmp_path / "a.npy", np.arange(1, 11, dtype=U2))
    check_shard(tmp_path / "a.npy", shard, U2, full=False)
    with pytest.raises(DamagedFile, match=r"SHA-256 is \w+, \w+ was recorded; ask"):
        check_shard(tmp_path / "a.npy", shard, U2, remedy="ask")
