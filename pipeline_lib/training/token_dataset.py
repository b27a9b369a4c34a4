"""The common part of all datasets: samples gathered from mapped files, one or many at a time.

A batch is one gather. ``__getitems__`` gives a ``SampleBatch``, which acts as a list of samples for
any collate function. No data is held in memory: a worker process gets paths, never bytes.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

Tensors = dict[str, torch.Tensor] | tuple[torch.Tensor, ...]
Indices = NDArray[np.int64]


class SampleBatch(Sequence[Any]):
    """Some samples as one dict or tuple of ``tensors``; their first dimension is the sample."""

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


class TokenDataset(Dataset[Any], ABC):
    """A map-style dataset; negative indices count from the end.

    ``fingerprint``: hex SHA-256 of the dataset's content; it is saved with a position.
    """

    EMPTY = ": there is nothing that fits; look at the counts and choose another length"
    fingerprint: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _gather(self, rows: Indices) -> Tensors:
        """The samples at some valid rows."""

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([operator.index(index)])[0]

    def __getitems__(self, indices: Sequence[int]) -> SampleBatch:
        """Several samples at once; ``IndexError`` for an index out of range."""
        rows, size = np.array(indices, dtype=np.int64), len(self)
        low, high = (min(indices), max(indices)) if len(rows) else (0, -1)
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise IndexError(f"sample {wrong} of {size:,}" + (self.EMPTY if not size else ""))
        if low < 0:
            rows[rows < 0] += size
        return SampleBatch(self._gather(rows))
