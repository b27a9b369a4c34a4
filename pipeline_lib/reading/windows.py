"""Token files cut into windows and rows, as numpy. What is mapped is mapped again by path.

Maps are read-only and opened when they are first needed: an object that travels to a worker
process takes its paths along, never its bytes.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class MappedFile:
    """A raw file of one dtype and shape, mapped for reading on first use."""

    def __init__(self, path: Path, dtype: str, shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.shape = path, dtype, shape
        self._array: NDArray[Any] | None = None

    @property
    def array(self) -> NDArray[Any]:
        """The mapped array; an empty file has an empty one."""
        if self._array is None:
            if 0 in self.shape:
                self._array = np.empty(self.shape, self.dtype)
            else:
                self._array = np.asarray(np.memmap(self.path, self.dtype, "r", shape=self.shape))
        return self._array

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_array": None}


class MappedShard(MappedFile):
    """A one-dimensional ``.npy`` file, mapped for reading on first use."""

    @property
    def array(self) -> NDArray[Any]:
        """The mapped tokens."""
        if self._array is None:
            self._array = np.asarray(np.load(self.path, mmap_mode="r", allow_pickle=False))
        return self._array


class ShardWindows:
    """Windows of ``length + 1`` tokens, each ``length`` after the one before, across shards.

    ``(tokens - 1) // length`` of them, so that every token but the first is predicted once; what
    remains at the end is ``unused`` tokens.
    """

    def __init__(self, shards: Sequence[MappedFile], length: int) -> None:
        self._shards, self._length = list(shards), length
        self._dtype = shards[0].dtype if shards else "<u2"
        sizes = np.array([shard.shape[0] for shard in shards], np.int64)
        self._ends = np.cumsum(sizes)
        self._begins = self._ends - sizes
        self.tokens = int(self._ends[-1]) if shards else 0
        self._count = max(self.tokens - 1, 0) // length
        self.unused = max(self.tokens - 1 - self._count * length, 0)

    def __len__(self) -> int:
        return self._count

    def gather(self, windows: NDArray[np.int64]) -> NDArray[Any]:
        """The tokens of some windows, in the shards' dtype: ``[windows, length + 1]``."""
        width, shards = self._length + 1, self._shards
        starts = windows * self._length
        if len(shards) == 1 and self._count:
            return _overlapping(shards[0].array, width)[starts]
        shard_of = self._ends.searchsorted(starts, "right")
        places = zip(shard_of.tolist(), (starts - self._begins[shard_of]).tolist(), strict=True)
        pieces = [shards[number].array[first : first + width] for number, first in places]
        if any(len(piece) < width for piece in pieces):
            pieces = [self._across(start) for start in starts.tolist()]
        joined = np.concatenate(pieces) if pieces else np.empty(0, self._dtype)
        return joined.reshape(len(pieces), width)

    def _across(self, start: int) -> NDArray[Any]:
        """One window, which may go on in the shards behind the one it begins in."""
        number, left = int(self._ends.searchsorted(start, "right")), self._length + 1
        first, pieces = start - int(self._begins[number]), []
        while left:
            piece = self._shards[number].array[first : first + left]
            pieces.append(piece)
            number, first, left = number + 1, 0, left - len(piece)
        return np.concatenate(pieces)


def _overlapping(tokens: NDArray[Any], width: int) -> NDArray[Any]:
    """All windows of a width as one read-only view; numpy's own function for it takes 9 us."""
    step = tokens.itemsize
    return np.ndarray((len(tokens) - width + 1, width), tokens.dtype, tokens, 0, (step, step))


class Batch(Sequence[Any]):
    """Some samples as one dict or tuple of ``tensors``, whose first dimension is the sample."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        tensors = self.tensors
        return len(next(iter(tensors.values())) if isinstance(tensors, dict) else tensors[0])

    def __getitem__(self, place: Any) -> Any:
        if isinstance(self.tensors, dict):
            return {name: tensor[place] for name, tensor in self.tensors.items()}
        return tuple(tensor[place] for tensor in self.tensors)

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))
