"""Windows of tokens across shard files, as numpy arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.corpus.mapped import MappedFile


class ShardWindows:
    """Windows of ``length + 1`` tokens across shards; each starts ``length`` after the previous.

    There are ``(tokens - 1) // length`` windows, so every token but the first is predicted once;
    ``unused`` tokens remain at the end.
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
        """One window that may continue in the next shards."""
        number, left = int(self._ends.searchsorted(start, "right")), self._length + 1
        first, pieces = start - int(self._begins[number]), []
        while left:
            piece = self._shards[number].array[first : first + left]
            pieces.append(piece)
            number, first, left = number + 1, 0, left - len(piece)
        return np.concatenate(pieces)


def _overlapping(tokens: NDArray[Any], width: int) -> NDArray[Any]:
    """All windows of a width as one read-only view; numpy's own function for this takes 9 us."""
    step = tokens.itemsize
    return np.ndarray((len(tokens) - width + 1, width), tokens.dtype, tokens, 0, (step, step))
