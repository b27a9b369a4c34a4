"""The loader counts what it handed out: a resume gives exactly the rest, whoever gathers it."""

import json
from collections.abc import Iterator
from itertools import islice
from queue import Queue
from threading import Thread
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from published_folders import publish

from pipeline_lib.errors import OrderChanged, OrderError, ReadAhead
from pipeline_lib.training.loader import BatchLoader, loader
from pipeline_lib.training.sharded import ShardedTokenDataset

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on few cores
WINDOWS = 23
Passes = list[list[list[int]]]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> ShardedTokenDataset:
    folder = publish(tmp_path_factory.mktemp("data") / "out", [*range(2 * WINDOWS + 1)])
    return ShardedTokenDataset(folder, "train", 2)


def samples(batch: Any) -> list[int]:
    """Which windows are in a batch."""
    return [first // 2 for first in batch[0][:, 0].tolist()]


def passes(batches: BatchLoader, count: int) -> Passes:
    return [[samples(batch) for batch in batches] for _ in range(count)]


def stopped_at(batches: BatchLoader, epoch: int, batch: int) -> Any:
    """The state behind a batch of an epoch, as it comes back from a file."""
    passes(batches, epoch)
    begun = iter(batches)
    for _ in islice(begun, batch):
        pass
    return json.loads(json.dumps(batches.state_dict()))


@given(st.integers(0, 2), st.integers(0, 8), st.booleans(), st.booleans(), st.integers(1, 9))
def test_a_resume_from_any_batch_of_any_epoch_gives_exactly_the_rest(
    dataset: ShardedTokenDataset, epoch: int, batch: int, drop: bool, shuffle: bool, size: int
) -> None:
    made: dict[str, Any] = {"seed": 3, "drop_last": drop, "shuffle": shuffle}
    whole = passes(loader(dataset, size, **made), epoch + 3)
    batch = min(batch, len(whole[epoch]))
    state = stopped_at(loader(dataset, size, **made), epoch, batch)
    again = loader(dataset, size, **made)
    again.load_state_dict(state)
    assert passes(again, 3) == [whole[epoch][batch:], *whole[epoch + 1 :]]


@pytest.mark.parametrize(("workers", "later"), [(2, 0), (0, 3), (1, 2)])
def test_workers_before_or_after_a_resume_change_nothing(
    dataset: ShardedTokenDataset, workers: int, later: int
) -> None:
    whole = passes(loader(dataset, 3, seed=3), 4)
    for epoch, batch in ((0, 3), (1, 8)):
        first = loader(dataset, 3, seed=3, num_workers=workers)
        state = stopped_at(first, epoch, batch)
        assert state["position"] == min(epoch * WINDOWS + 3 * batch, (epoch + 1) * WINDOWS)
        again = loader(dataset, 3, seed=3, num_workers=later)
        again.load_state_dict(state)
        assert passes(again, 2) == [whole[epoch][batch:], whole[epoch + 1]]


def test_a_pass_that_is_left_goes_on_behind_what_was_handed_out(
    dataset: ShardedTokenDataset,
) -> None:
    whole = passes(loader(dataset, 3), 1)[0]
    batches = loader(dataset, 3, num_workers=2)
    assert [samples(batch) for batch in islice(batches, 2)] == whole[:2]
    assert [samples(batch) for batch in batches] == whole[2:]


def test_workers_may_be_started_without_a_copy_of_this_process(
    dataset: ShardedTokenDataset,
) -> None:
    spawned = loader(dataset, 8, num_workers=1, multiprocessing_context="spawn")
    assert passes(spawned, 1) == passes(loader(dataset, 8), 1)


def test_the_random_numbers_of_torch_are_left_alone(dataset: ShardedTokenDataset) -> None:
    def next_number(workers: int) -> float:
        torch.manual_seed(1)
        next(iter(loader(dataset, 3, num_workers=workers)))
        return torch.rand(()).item()

    assert next_number(0) == next_number(1)


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 9), st.booleans())
def test_any_number_of_processes_goes_on_where_any_other_stood(
    dataset: ShardedTokenDataset, before: int, after: int, taken: int, drop: bool
) -> None:
    state = stopped_at(loader(dataset, 2, rank=0, world_size=before, drop_last=drop), 0, taken)
    rest = []
    for rank in range(after):
        one = loader(dataset, 2, rank=rank, world_size=after, drop_last=drop)
        one.load_state_dict(state)
        rest.append([[s for batch in one_pass for s in batch] for one_pass in passes(one, 2)])
    order = loader(dataset, 1).order
    given_out = [
        [s for step in zip(*each, strict=True) for s in step] for each in zip(*rest, strict=True)
    ]
    start = state["position"]
    expected = order.indices(torch.arange(start, start + len(given_out[0])).numpy()).tolist()
    assert given_out[0] == expected
    if drop:
        assert len(given_out[0]) % (2 * after) == 0
        assert len(given_out[1]) == WINDOWS // (2 * after) * 2 * after


def test_what_is_left_out_of_one_epoch_is_in_another(dataset: ShardedTokenDataset) -> None:
    seen = passes(loader(dataset, 10, drop_last=True), 8)
    assert all([len(batch) for batch in each] == [10, 10] for each in seen)
    assert {s for each in seen for batch in each for s in batch} == set(range(WINDOWS))
    with pytest.raises(ValueError, match="drop_last leaves no batch: 23 samples do not fill 2 of"):
        loader(dataset, 12, drop_last=True, rank=0, world_size=2)


def test_a_failure_while_a_batch_is_gathered_does_not_count_it(
    dataset: ShardedTokenDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = loader(dataset, 3)
    begun = iter(batches)
    next(begun)
    monkeypatch.setattr(ShardedTokenDataset, "_gather", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        next(begun)
    assert batches.state_dict()["position"] == 3


def test_two_passes_at_a_time_are_an_error(dataset: ShardedTokenDataset) -> None:
    batches = loader(dataset, 3)
    first, second = iter(batches), iter(batches)
    next(first), next(second)
    with pytest.raises(OrderError, match="this pass is at position 3, but the order was moved to"):
        next(first), next(first)


def test_a_position_that_is_loaded_in_a_pass_ends_it_with_a_word(
    dataset: ShardedTokenDataset,
) -> None:
    batches = loader(dataset, 3, num_workers=1)
    begun = iter(batches)
    next(begun)
    batches.load_state_dict({**batches.state_dict(), "position": 12})
    with pytest.raises(OrderError, match="begin a new one after a position is loaded"):
        next(begun)
    assert len(passes(batches, 1)[0]) == 4


def test_a_thread_that_reads_for_another_hides_where_training_stands(
    dataset: ShardedTokenDataset,
) -> None:
    batches, queue = loader(dataset, 3), Queue[Any]()

    def read() -> None:
        for batch in batches:
            queue.put(batch)

    reader = Thread(target=read)
    reader.start()
    queue.get()
    reader.join()
    with pytest.raises(ReadAhead, match="another thread has read up to position 23"):
        batches.state_dict()


def test_another_dataset_or_seed_is_refused(dataset: ShardedTokenDataset) -> None:
    state = loader(dataset, 3, seed=1).state_dict()
    with pytest.raises(OrderChanged, match="seed 1, this is 2; to shuffle True, this is False"):
        loader(dataset, 3, seed=2, shuffle=False).load_state_dict(state)


def test_the_length_is_what_is_still_to_come(dataset: ShardedTokenDataset) -> None:
    batches = loader(dataset, 10, num_workers=1)
    begun: Iterator[Any] = iter(batches)
    assert len(batches) == 3
    next(begun)
    assert len(batches) == 2
    assert [len(samples(batch)) for batch in begun] == [10, 3]
    assert len(batches) == 3
