"""The order of training: a permutation that is computed, not stored.

Position ``p`` of the endless stream belongs to epoch ``p // size``. A bijection with a key for this
epoch maps ``p % size`` to the index of a sample. So the whole state of a sampler is one integer,
the next position. Any number of processes shares the stream: process ``rank`` takes every
``world_size``-th position, starting ``rank`` after the next position.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.errors import PipelineError

ORDER_VERSION = 1
_AHEAD = 256
"""Batches whose indices are computed in one call; this changes only the speed."""
_ROUNDS = 6
_C1, _C2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class OrderState(TypedDict):
    """A saved position of an order: the next position, the digest of the dataset, and the seed."""

    position: int
    dataset: str
    seed: int


class OrderChanged(PipelineError):
    """A saved position belongs to another dataset or another seed."""


def permuted(places: NDArray[np.int64], size: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The sample indices at some places of an epoch; a bijection of ``range(size)``.

    It is a balanced Feistel network on the next even number of bits. A value of ``size`` or more is
    sent through the network again until it is smaller.
    """
    half = np.uint64(max((size - 1).bit_length() + 1, 2) // 2)
    keys = [_round_key(seed, epoch, number) for number in range(_ROUNDS)]
    values = places.astype(np.uint64)
    outside = np.arange(len(values))
    while len(outside):
        values[outside] = _feistel(values[outside], half, keys)
        outside = outside[values[outside] >= size]
    return values.astype(np.int64)


def _round_key(seed: int, epoch: int, number: int) -> np.uint64:
    text = f"{ORDER_VERSION}\0{seed}\0{epoch}\0{number}"
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))


def _feistel(
    values: NDArray[np.uint64], half: np.uint64, keys: list[np.uint64]
) -> NDArray[np.uint64]:
    low = np.uint64((1 << int(half)) - 1)
    left, right = values >> half, values & low
    for key in keys:
        mixed = (right ^ key) * _C1
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _C2
        left, right = right, left ^ ((mixed >> np.uint64(32)) & low)
    return (left << half) | right


class BatchOrder:
    """Batches of sample indices for one process, as a ``batch_sampler``; one pass is one epoch.

    ``size``: number of samples. ``dataset``: digest of the dataset, saved with a position.
    ``shuffle``: order of ``seed``, else the stored order. ``rank`` of ``world_size``: the number of
    this process. ``ValueError`` for a wrong argument. Iterating gives lists of int; the last batch
    of a pass may be shorter. ``position`` is the next position of the endless stream.

    If ``world_size`` does not divide the rest of an epoch, a pass takes the missing positions from
    the next epoch, which then starts after them. So no sample is lost or repeated, and every
    process gets the same number of batches.
    """

    def __init__(
        self,
        size: int,
        batch_size: int,
        *,
        dataset: str = "",
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if size < 1 or batch_size < 1:
            raise ValueError(f"size {size} and batch_size {batch_size} must be above 0")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank is {rank}; it must lie in range({world_size})")
        self._size, self._batch_size, self._dataset = size, batch_size, dataset
        self._seed, self._shuffle = seed, shuffle
        self._rank, self._world_size = rank, world_size
        self.position = 0

    def __len__(self) -> int:
        return -(-self._steps_left() // self._batch_size)

    def _steps_left(self) -> int:
        left = self._size - self.position % self._size
        return -(-left // self._world_size)

    def __iter__(self) -> Iterator[list[int]]:
        steps, next_one = self._steps_left(), -1
        ahead = np.empty(0, np.int64)
        while steps:
            count = min(steps, self._batch_size)
            if not len(ahead) or self.position != next_one:
                taken = np.arange(min(steps, _AHEAD * self._batch_size))
                ahead = self.indices(self.position + self._rank + self._world_size * taken)
            batch, ahead = ahead[:count], ahead[count:]
            next_one = self.position = self.position + count * self._world_size
            steps -= count
            yield batch.tolist()

    def indices(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sample indices (int64) at some positions of the endless stream."""
        epochs, places = np.divmod(positions.astype(np.int64), self._size)
        if not self._shuffle:
            return places
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            places[here] = permuted(places[here], self._size, self._seed, epoch)
        return places

    def state_dict(self) -> OrderState:
        """The keys ``position`` (the next one), ``dataset`` (its digest) and ``seed``."""
        return OrderState(position=self.position, dataset=self._dataset, seed=self._seed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a saved position, with any world size.

        ``OrderChanged`` if it belongs to another dataset or seed.
        """
        for name, mine in (("dataset", self._dataset), ("seed", self._seed)):
            if state[name] != mine:
                raise OrderChanged(
                    f"the saved position belongs to {name} {state[name]}, this is {mine}; "
                    f"use the {name} of the saved position, or begin at position 0"
                )
        self.position = int(state["position"])
