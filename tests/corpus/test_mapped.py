"""A mapped file is opened when it is first needed, and travels without its bytes."""

import copy
from pathlib import Path

import numpy as np
import pytest

from pipeline_lib.corpus.mapped import MappedFile, MappedShard


def test_a_raw_file_is_mapped_read_only_in_its_shape(tmp_path: Path) -> None:
    np.arange(6, dtype="<u4").tofile(tmp_path / "a.bin")
    mapped = MappedFile(tmp_path / "a.bin", "<u4", (2, 3))
    assert mapped.array.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="read-only"):
        mapped.array[0, 0] = 1


def test_an_empty_file_has_an_empty_array(tmp_path: Path) -> None:
    (tmp_path / "a.bin").touch()
    assert MappedFile(tmp_path / "a.bin", "<u4", (0, 3)).array.shape == (0, 3)


def test_a_shard_has_the_dtype_of_its_header(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3, dtype="<u2"))
    assert MappedShard(tmp_path / "a.npy", "<u2", (3,)).array.tolist() == [0, 1, 2]


def test_a_copy_opens_the_file_for_itself(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3, dtype="<u2"))
    mapped = MappedShard(tmp_path / "a.npy", "<u2", (3,))
    first = mapped.array
    again = copy.copy(mapped)
    assert type(again) is MappedShard and (again.path, again.shape) == (mapped.path, (3,))
    assert again.array is not first and again.array.tolist() == first.tolist()
