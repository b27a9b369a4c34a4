"""Files of numbers, mapped for reading.

Maps are read-only and are opened when they are first needed. An object that travels to a worker
process takes its path along, never its bytes.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class MappedFile:
    """A raw file of one dtype and shape, mapped for reading on first use."""

    def __init__(self, path: Path, dtype: str | np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.shape = path, dtype, shape
        self._array: NDArray[Any] | None = None

    @property
    def array(self) -> NDArray[Any]:
        """The mapped array, of ``dtype`` and ``shape``; an empty file can not be mapped, and has an
        empty array of its own."""
        if self._array is None:
            if 0 in self.shape:
                self._array = np.empty(self.shape, self.dtype)
            else:
                self._array = np.asarray(np.memmap(self.path, self.dtype, "r", shape=self.shape))
        return self._array

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.dtype, self.shape)


class MappedShard(MappedFile):
    """A one-dimensional ``.npy`` file, mapped for reading on first use."""

    @property
    def array(self) -> NDArray[Any]:
        """The mapped tokens, in one dimension."""
        if self._array is None:
            self._array = np.asarray(np.load(self.path, mmap_mode="r", allow_pickle=False))
        return self._array
