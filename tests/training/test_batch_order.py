"""The order of training: a bijection for every epoch, and a state of one integer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import OrderChanged
from pipeline_lib.training.batch_order import BatchOrder, permuted

SEED = st.integers(0, 2**32 - 1)


@given(st.integers(1, 700), SEED, st.integers(0, 9))
def test_an_epoch_is_a_permutation(size: int, seed: int, epoch: int) -> None:
    assert sorted(permuted(np.arange(size), size, seed, epoch).tolist()) == list(range(size))


@given(st.integers(1, 2**40), SEED)
def test_any_place_of_a_large_epoch_is_found_without_the_others(size: int, seed: int) -> None:
    places = np.unique(np.array([0, size // 3, size - 1], np.int64))
    found = permuted(places, size, seed, 0)
    assert len(set(found.tolist())) == len(places)
    assert ((found >= 0) & (found < size)).all()


def test_the_order_is_pinned() -> None:
    assert permuted(np.arange(10), 10, 1337, 0).tolist() == [5, 1, 0, 4, 7, 8, 9, 3, 2, 6]


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {tuple(permuted(np.arange(50), 50, s, e).tolist()) for s in (1, 2) for e in (0, 1)}
    assert len(orders) == 4
    assert tuple(range(50)) not in orders


def test_an_order_does_not_prefer_neighbours() -> None:
    order = permuted(np.arange(10_000), 10_000, 5, 0)
    steps = np.abs(np.diff(order))
    assert 3_000 < steps.mean() < 3_700  # a third of the range for a random order
    assert (steps == 1).sum() < 20


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 5), SEED)
def test_all_processes_together_see_every_sample_once_in_each_epoch(
    size: int, batch: int, world: int, seed: int
) -> None:
    orders = [BatchOrder(size, batch, seed=seed, rank=r, world_size=world) for r in range(world)]
    stream: list[int] = []
    while len(stream) < 3 * size:
        passes = [list(order) for order in orders]
        assert len({len(each) for each in passes}) == 1
        for step in zip(*passes, strict=True):
            for samples in zip(*step, strict=True):
                stream += samples
    for epoch in range(3):
        assert sorted(stream[epoch * size : (epoch + 1) * size]) == list(range(size))


@given(st.integers(1, 40), st.integers(0, 30), st.integers(1, 4), st.integers(1, 4))
def test_a_saved_position_goes_on_exactly_at_any_world_size(
    size: int, taken: int, before: int, after: int
) -> None:
    whole = BatchOrder(size, 1, seed=3)
    stream = whole.indices(np.arange(4 * size + 200)).tolist()
    first = BatchOrder(size, 2, seed=3, rank=0, world_size=before)
    for _, _ in zip(range(taken), iter(first), strict=False):
        pass
    rest = []
    for rank in range(after):
        second = BatchOrder(size, 3, seed=3, rank=rank, world_size=after)
        second.load_state_dict(first.state_dict())
        rest.append([sample for batch in second for sample in batch])
    merged = [sample for step in zip(*rest, strict=True) for sample in step]
    assert merged == stream[first.position : first.position + len(merged)]


def test_the_length_is_the_number_of_batches_to_come() -> None:
    order = BatchOrder(10, 4)
    assert len(order) == len(list(order)) == 3
    order.position = 14
    assert len(order) == len(list(order)) == 2


def test_without_shuffle_samples_come_as_they_lie() -> None:
    order = BatchOrder(5, 2, shuffle=False)
    assert [list(order), list(order)] == [[[0, 1], [2, 3], [4]]] * 2


def test_a_position_of_another_dataset_or_seed_is_refused() -> None:
    state = BatchOrder(5, 1, dataset="a", seed=1).state_dict()
    with pytest.raises(OrderChanged, match="belongs to dataset a, this is b"):
        BatchOrder(5, 1, dataset="b", seed=1).load_state_dict(state)
    with pytest.raises(OrderChanged, match="belongs to seed 1, this is 2"):
        BatchOrder(5, 1, dataset="a", seed=2).load_state_dict(state)


@pytest.mark.parametrize(("size", "batch", "rank"), [(0, 1, 0), (5, 0, 0), (5, 1, 1), (5, 1, -1)])
def test_sizes_and_ranks_that_can_not_be_are_refused(size: int, batch: int, rank: int) -> None:
    with pytest.raises(ValueError, match="must"):
        BatchOrder(size, batch, rank=rank)
