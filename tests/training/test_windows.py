"""Windows and rows over mapped files, without torch."""

import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.corpus.mapped import MappedFile, MappedShard
from pipeline_lib.training.token_dataset import SampleBatch
from pipeline_lib.training.windows import ShardWindows


class InMemory(MappedFile):
    """A shard that is not on disk."""

    def __init__(self, tokens: list[int]) -> None:
        super().__init__(Path("none"), "<u2", (len(tokens),))
        self._array = np.array(tokens, "<u2")


SIZES = st.lists(st.integers(1, 12), max_size=6)


def in_memory_windows(sizes: list[int], length: int) -> tuple[ShardWindows, int]:
    ends = np.cumsum([0, *sizes])
    shards = [InMemory(list(range(a, b))) for a, b in pairwise(ends)]
    return ShardWindows(shards, length), int(ends[-1])


@given(SIZES, st.integers(1, 15))
def test_every_token_but_the_first_is_predicted_once_or_left_at_the_end(
    sizes: list[int], length: int
) -> None:
    windows, total = in_memory_windows(sizes, length)
    found = windows.gather(np.arange(len(windows)))
    assert len(windows) == max(total - 1, 0) // length
    predicted = found[:, 1:].ravel().tolist()
    assert predicted == list(range(1, len(windows) * length + 1))
    assert windows.unused == max(total - 1, 0) - len(predicted)
    assert (found[:, :-1] + 1 == found[:, 1:]).all()


@given(SIZES, st.integers(1, 15), st.data())
def test_windows_may_be_gathered_in_any_order(
    sizes: list[int], length: int, data: st.DataObject
) -> None:
    windows, _ = in_memory_windows(sizes, length)
    if not len(windows):
        return
    rows = data.draw(st.lists(st.integers(0, len(windows) - 1), max_size=8))
    found = windows.gather(np.array(rows, np.int64))
    assert found.shape == (len(rows), length + 1)
    assert found[:, 0].tolist() == [row * length for row in rows]


def test_a_mapped_file_is_read_only_and_travels_without_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "rows.bin"
    np.arange(600_000, dtype="<i4").tofile(path)
    file = MappedFile(path, "<i4", (300_000, 2))
    assert file.array[1].tolist() == [2, 3]
    assert not file.array.flags.writeable
    sent = pickle.dumps(file)
    assert len(sent) < 1_000
    assert pickle.loads(sent).array[-1].tolist() == [599_998, 599_999]


def test_a_shard_is_mapped_behind_its_header(tmp_path: Path) -> None:
    np.save(tmp_path / "train_00000.npy", np.arange(5, dtype="<u4"))
    shard = MappedShard(tmp_path / "train_00000.npy", "<u4", (5,))
    assert shard.array.tolist() == [0, 1, 2, 3, 4]


def test_an_empty_file_has_an_empty_array(tmp_path: Path) -> None:
    (tmp_path / "rows.bin").write_bytes(b"")
    assert MappedFile(tmp_path / "rows.bin", "<i4", (0, 8)).array.shape == (0, 8)


def test_a_batch_acts_as_a_list_of_samples() -> None:
    named = SampleBatch({"x": np.arange(6).reshape(3, 2), "y": np.arange(3)})
    assert len(named) == 3
    assert [int(sample["y"]) for sample in named] == [0, 1, 2]
    assert named[1]["x"].tolist() == [2, 3]
    assert SampleBatch((np.arange(4),))[2] == (2,)
