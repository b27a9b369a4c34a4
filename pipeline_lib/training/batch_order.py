"""The order of training: a permutation that is computed, not stored.

Position ``p`` of the endless stream belongs to epoch ``p // size``. A bijection with a key for this
epoch maps ``p % size`` to the index of a sample. So the whole state of a sampler is one integer,
the next position. Any number of processes shares the stream: process ``rank`` takes every
``world_size``-th position, starting ``rank`` after the next position.
"""

import hashlib
from collections.abc import Iterator, Mapping
from operator import index
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.errors import OrderError, ReadAhead
from pipeline_lib.training.order_state import OrderState, above_zero, check_position, check_state
from pipeline_lib.training.processes import place_in_world
from pipeline_lib.training.readers import Reader, asked_by_a_reader, read_ahead_by, reader_here

ORDER_VERSION = 1
_AHEAD = 256
"""Batches whose indices are computed in one call; this changes only the speed."""
_ROUNDS = 6
_C1, _C2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_REMEDY = (
    "and may not have handed out all of it, so where training stands is not known; take the "
    "state_dict() of loader(..., num_workers=...) or of torchdata's StatefulDataLoader, which "
    "count what they handed out, or set the position by hand"
)


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
    ``shuffle``: order of ``seed``, else the stored order. ``drop_last``: a last batch that not
    every process can fill is left out; the samples in it are others in each epoch. ``rank`` of
    ``world_size``, or ``world="group"``: the number of this process (``place_in_world``).
    ``ValueError`` for a wrong argument. Iterating gives lists of int; the last batch of a pass may
    be shorter. ``position`` is the next position of the endless stream.

    If ``world_size`` does not divide the rest of an epoch, a pass takes the missing positions from
    the next epoch, which then starts after them. So no sample is lost or repeated, and every
    process gets the same number of batches. With ``drop_last`` it takes none.
    """

    def __init__(
        self,
        size: int,
        batch_size: int,
        *,
        dataset: str = "",
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        world: Literal["group"] | None = None,
    ) -> None:
        size, batch_size = above_zero("size", size), above_zero("batch_size", batch_size)
        self.world = place_in_world(rank, world_size, world)
        if drop_last and size < batch_size * self.world.size:
            raise ValueError(
                f"drop_last leaves no batch: {size} samples do not fill {self.world.size} of "
                f"{batch_size}; choose a smaller batch_size"
            )
        self._size, self.batch_size, self._dataset = size, batch_size, dataset
        self._seed, self._shuffle, self.drop_last = index(seed), bool(shuffle), bool(drop_last)
        self.position = 0

    @property
    def position(self) -> int:
        """The next position of the endless stream. Where it is set, the next pass begins."""
        return self._position

    @position.setter
    def position(self, position: int) -> None:
        self._position = check_position(position)
        self._begin_epoch()
        self._reader: Reader | None = None

    def _begin_epoch(self) -> None:
        self._end = (self._position // self._size + 1) * self._size
        self._under_way = False

    def __len__(self) -> int:
        """The number of batches until the end of the epoch."""
        return -(-self._steps_left() // self.batch_size)

    def _steps_left(self) -> int:
        """Samples that this process still takes in the epoch."""
        left = max(self._end - self._position, 0)
        if self.drop_last:
            return left // (self.batch_size * self.world.size) * self.batch_size
        return -(-left // self.world.size)

    def __iter__(self) -> Iterator[list[int]]:
        ahead, one_pass = read_ahead_by(), Pass(self)
        for batch in one_pass.batches():
            one_pass.handed_out(ahead)
            yield batch
        one_pass.end()

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
        """The next position, and what it belongs to (``OrderState``).

        ``ReadAhead`` where what reads the order may hold batches that it has not handed out: a
        data loader with workers, accelerate, another thread.
        """
        hidden = self._reader.hides() if self._reader else ""
        if hidden and not asked_by_a_reader():
            raise ReadAhead(f"{hidden} has read up to position {self._position:,} {_REMEDY}")
        return self._state()

    def _state(self) -> OrderState:
        return OrderState(
            version=ORDER_VERSION,
            position=self._position,
            at_end=self._position >= self._end,
            size=self._size,
            dataset=self._dataset,
            seed=self._seed,
            shuffle=self._shuffle,
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a saved position, with any batch size and any world size.

        ``OrderChanged`` if it belongs to another dataset, seed or shuffle; ``OrderError`` if it is
        not a state.
        """
        check_state(state, self._state())
        self.position = state["position"]
        if state["at_end"]:
            self._end = self._position


class Pass:
    """One pass over an order: its batches, and how many of them were handed out.

    What reads ahead takes ``batches()`` early and says ``handed_out()`` for each one when it is
    due; only that moves the order. ``ReadAhead`` if the pass before was left with batches that were
    read and never handed out.
    """

    def __init__(self, order: BatchOrder) -> None:
        hidden = order._reader.hides() if order._under_way and order._reader else ""
        if hidden:
            raise ReadAhead(f"the last pass was left before its end: {hidden} had read {_REMEDY}")
        self._order, self._place = order, order._position
        self._steps, self._stride = order._steps_left(), order.world.size

    def batches(self) -> Iterator[list[int]]:
        """The lists of sample indices of this process, to the end of the epoch."""
        order, start, size = self._order, self._place, self._order.batch_size
        for first in range(0, steps := self._steps, _AHEAD * size):
            taken = np.arange(first, min(first + _AHEAD * size, steps))
            places = start + order.world.rank + self._stride * taken
            ahead = order.indices(places).tolist()
            for begin in range(0, len(ahead), size):
                yield ahead[begin : begin + size]

    def handed_out(self, ahead: str = "") -> None:
        """One more batch was handed out, here or by what reads ``ahead``."""
        order = self._own_order()
        count = min(self._steps, order.batch_size)
        self._steps -= count
        self._place = order._position = self._place + count * self._stride
        order._under_way, order._reader = True, reader_here(ahead)

    def end(self) -> None:
        """The end was met: the next pass is the next epoch."""
        order = self._own_order()
        if order.drop_last:
            order._position = max(order._position, order._end)
        order._begin_epoch()

    def _own_order(self) -> BatchOrder:
        if self._order._position != self._place:
            raise OrderError(
                f"this pass is at position {self._place:,}, but the order was moved to "
                f"{self._order._position:,}: another pass or load_state_dict() did it; make one "
                "pass at a time, and begin a new one after a position is loaded"
            )
        return self._order
