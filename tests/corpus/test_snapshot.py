"""The buffer of a shuffle comes back as it was written, or not at all."""

from pathlib import Path

import pytest
from crashes import flip

from pipeline_lib.corpus.snapshot import read_snapshot, write_snapshot
from pipeline_lib.errors import DamagedFile
from pipeline_lib.shuffling import Row

ROWS: list[Row] = [b"one", None, b"", "drei ü".encode()]


@pytest.mark.parametrize("rows", [[], [None], [b""], ROWS])
def test_rows_come_back_with_nulls_and_empty_texts_told_apart(
    tmp_path: Path, rows: list[Row]
) -> None:
    record = write_snapshot(tmp_path, 7, rows)
    assert (record["file"], record["documents"]) == ("buffer_000007.bin", len(rows))
    assert read_snapshot(tmp_path, record) == rows


def test_a_large_buffer_comes_back(tmp_path: Path) -> None:
    rows = [None if n % 9 == 0 else b"%d" % n * (n % 50) for n in range(3_000)]
    assert read_snapshot(tmp_path, write_snapshot(tmp_path, 1, rows)) == rows


def test_the_layout_is_lengths_and_then_documents(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 1, [b"ab", None])
    lengths = (2).to_bytes(8, "little") + b"\xff" * 8
    assert (tmp_path / "buffer_000001.bin").read_bytes() == lengths + b"ab"


@pytest.mark.parametrize("position", [0, 20, -1])
def test_a_changed_snapshot_is_found(tmp_path: Path, position: int) -> None:
    record = write_snapshot(tmp_path, 1, ROWS)
    flip(tmp_path / "buffer_000001.bin", position)
    with pytest.raises(DamagedFile, match=r"buffer_000001\.bin does not match"):
        read_snapshot(tmp_path, record)


def test_a_missing_snapshot_is_found(tmp_path: Path) -> None:
    record = write_snapshot(tmp_path, 1, ROWS)
    (tmp_path / "buffer_000001.bin").unlink()
    with pytest.raises(DamagedFile, match=r"buffer_000001\.bin is missing"):
        read_snapshot(tmp_path, record)
