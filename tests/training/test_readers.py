"""An order notices who reads it: what reads ahead hides where training stands."""

from collections.abc import Iterator
from itertools import islice
from threading import Thread
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader, Dataset

from pipeline_lib.errors import ReadAhead
from pipeline_lib.training.batch_order import BatchOrder

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on few cores


class Numbers(Dataset[int]):
    def __getitem__(self, place: int) -> int:
        return place


def reading(order: BatchOrder, workers: int) -> Iterator[Any]:
    return iter(DataLoader(Numbers(), batch_sampler=order, num_workers=workers))


def test_workers_hide_the_position() -> None:
    order = BatchOrder(100, 8, seed=1)
    batches = reading(order, 2)
    for _ in islice(batches, 3):
        pass
    assert order.position > 24
    with pytest.raises(ReadAhead, match="a data loader with 2 worker processes has read up to"):
        order.state_dict()


def test_also_before_a_batch_and_behind_the_last_one() -> None:
    order = BatchOrder(100, 8, seed=1)
    batches = reading(order, 1)
    with pytest.raises(ReadAhead):
        order.state_dict()
    for _ in batches:
        pass
    with pytest.raises(ReadAhead, match="set the position by hand"):
        order.state_dict()
    order.position = 100
    assert order.state_dict()["position"] == 100


def test_also_through_a_sampler_that_others_put_around_it() -> None:
    def around(order: BatchOrder) -> Iterator[list[int]]:
        for number, batch in enumerate(order):
            if number % 2 == 0:
                yield batch

    order = BatchOrder(100, 8, seed=1)
    batches: Any = DataLoader(
        Numbers(),
        batch_sampler=around(order),  # type: ignore[arg-type]
        num_workers=1,
    )
    next(iter(batches))
    with pytest.raises(ReadAhead):
        order.state_dict()


def test_a_pass_that_was_read_ahead_and_left_is_not_gone_on_with_in_silence() -> None:
    order = BatchOrder(100, 8, seed=1)
    next(reading(order, 1))
    with pytest.raises(ReadAhead, match="the last pass was left before its end"):
        next(iter(order))
    order.position = 8
    assert next(iter(order)) == order.indices(np.arange(8, 16)).tolist()


def test_the_next_epoch_may_be_read_ahead_too() -> None:
    order = BatchOrder(20, 8, seed=1)
    epochs = [[n for batch in reading(order, 2) for n in batch.tolist()] for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(20))] * 2
    assert epochs[0] != epochs[1]


def test_without_workers_the_position_is_exact() -> None:
    order = BatchOrder(100, 8, seed=1)
    batches = reading(order, 0)
    for count in range(1, 5):
        next(batches)
        assert order.state_dict()["position"] == 8 * count


def test_a_function_that_takes_batches_for_its_caller_hides_nothing() -> None:
    def take(batches: Iterator[list[int]]) -> list[int]:
        return next(batches)

    order = BatchOrder(100, 8)
    begun = iter(order)
    take(begun), take(begun)
    assert order.state_dict()["position"] == 16


def test_a_thread_that_reads_may_ask_and_others_may_not() -> None:
    order, seen = BatchOrder(100, 8), []

    def read() -> None:
        next(iter(order))
        seen.append(order.state_dict()["position"])

    reader = Thread(target=read)
    reader.start()
    reader.join()
    assert seen == [8]
    with pytest.raises(ReadAhead, match="another thread"):
        order.state_dict()
