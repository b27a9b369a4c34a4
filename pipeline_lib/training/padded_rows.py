"""Rows of a ragged cache, padded when they are read."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.templates.encoding import Places
from pipeline_lib.token_caches.row_cache import RowCache

Padded = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Ids, and the loss mask."""


class PaddedRows:
    """The rows of a cache that fit ``max_len``, in its order; what is longer is cut when read."""

    def __init__(self, cache: RowCache, max_len: int) -> None:
        self._whole, self._chosen, self._max_len = cache.rows, cache.chosen, max_len
        self._pad = int(cache.whole.record.key["pad_id"])

    def __len__(self) -> int:
        return self._chosen.shape[0]

    def records(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The records of some rows (see ``RowFiles``)."""
        found: NDArray[Any] = self._whole.records.array[self._chosen.array[rows]]
        return found

    def lengths(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Real tokens of some rows: ``[rows, sides]``."""
        return self._places(rows)[1].astype(np.int32)

    def _places(self, rows: NDArray[np.int64]) -> tuple[Places, Places]:
        """Where some rows begin, and how long they are: ``[rows, sides]``."""
        starts, stops = self._whole.bounds(self._chosen.array[rows].astype(np.int64))
        return starts, np.minimum(stops - starts, self._max_len)

    def padded(self, rows: NDArray[np.int64]) -> Padded:
        """Some rows: ``[rows, sides, max_len]``."""
        starts, sizes = self._places(rows)
        width, count = self._max_len, starts.size
        ids = np.full((count, width), self._pad, np.int64)
        mask = np.zeros((count, width), np.int64)
        tokens, loss = self._whole.ids.array, self._whole.mask.array
        places = zip(starts.ravel().tolist(), sizes.ravel().tolist(), strict=True)
        for row, (start, size) in enumerate(places):
            ids[row, :size] = tokens[start : start + size]
            mask[row, :size] = loss[start : start + size]
        shape = (*starts.shape, width)
        return ids.reshape(shape), mask.reshape(shape)
