"""torchdata's StatefulDataLoader over ``BatchOrder``: a resume gives exactly the rest."""

import copy
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from published_folders import publish

from pipeline_lib import BatchOrder, ShardedTokenDataset
from pipeline_lib.errors import ReadAhead

pytestmark = [
    pytest.mark.consumers,
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # on few cores
    pytest.mark.filterwarnings("ignore:.set_vital. is deprecated"),  # torchdata calls it
]
WINDOWS, BATCH = 23, 3
BATCHES = 8


@pytest.fixture
def dataset(tmp_path: Path) -> ShardedTokenDataset:
    return ShardedTokenDataset(publish(tmp_path / "out", [*range(2 * WINDOWS + 1)]), "train", 2)


def made(dataset: ShardedTokenDataset, workers: int, **options: Any) -> tuple[Any, BatchOrder]:
    from torchdata.stateful_dataloader import StatefulDataLoader

    order = BatchOrder(WINDOWS, BATCH, dataset=dataset.fingerprint, seed=3)
    return (
        StatefulDataLoader(dataset, batch_sampler=order, num_workers=workers, **options),
        order,
    )


def windows(batch: Any) -> list[int]:
    return [first // 2 for first in batch[0][:, 0].tolist()]


def epochs(batches: Any, count: int) -> list[list[list[int]]]:
    return [[windows(batch) for batch in batches] for _ in range(count)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("epoch", "taken"), [(0, 0), (0, 3), (1, 1), (1, BATCHES - 1), (1, 8)])
def test_a_resume_gives_exactly_the_rest_and_the_next_epoch(
    dataset: ShardedTokenDataset, workers: int, epoch: int, taken: int
) -> None:
    whole = epochs(made(dataset, 0)[0], 3)
    assert len(whole[0]) == BATCHES
    first, _ = made(dataset, workers)
    assert epochs(first, epoch) == whole[:epoch]
    begun = iter(first)
    assert [windows(batch) for batch in islice(begun, taken)] == whole[epoch][:taken]
    again, _ = made(dataset, workers)
    again.load_state_dict(copy.deepcopy(first.state_dict()))
    assert epochs(again, 2) == [whole[epoch][taken:], whole[epoch + 1]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_from_between_two_epochs_begins_the_next_one(
    dataset: ShardedTokenDataset, workers: int
) -> None:
    first, _ = made(dataset, workers)
    whole = epochs(first, 1)
    state = copy.deepcopy(first.state_dict())
    again, _ = made(dataset, workers)
    again.load_state_dict(state)
    assert [*whole, *epochs(again, 2)] == epochs(made(dataset, 0)[0], 3)


def test_a_state_that_is_kept_only_now_and_then_is_as_exact(dataset: ShardedTokenDataset) -> None:
    whole = epochs(made(dataset, 0)[0], 1)[0]
    first, _ = made(dataset, 2, snapshot_every_n_steps=4)
    for _ in islice(iter(first), 6):
        pass
    again, _ = made(dataset, 2, snapshot_every_n_steps=4)
    again.load_state_dict(first.state_dict())
    assert [windows(batch) for batch in again] == whole[6:]


def test_the_order_itself_says_that_workers_have_read_ahead(dataset: ShardedTokenDataset) -> None:
    batches, order = made(dataset, 2)
    next(iter(batches))
    with pytest.raises(ReadAhead, match="a data loader with 2 worker processes"):
        order.state_dict()


def test_a_graph_of_nodes_that_reads_in_a_thread_goes_on_exactly(
    dataset: ShardedTokenDataset,
) -> None:
    from torchdata import nodes

    def graph() -> Any:
        order = BatchOrder(WINDOWS, BATCH, dataset=dataset.fingerprint, seed=3)
        mapped = nodes.ParallelMapper(
            nodes.SamplerWrapper(order), lambda rows: list(rows), num_workers=1, method="thread"
        )
        return nodes.Loader(nodes.Prefetcher(mapped, 2))

    first, whole = graph(), epochs_of_rows(graph(), 2)
    assert whole[0] != whole[1]
    begun = iter(first)
    taken = [next(begun) for _ in range(3)]
    again = graph()
    again.load_state_dict(copy.deepcopy(first.state_dict()))
    assert taken + epochs_of_rows(again, 1)[0] == whole[0]


def epochs_of_rows(batches: Any, count: int) -> list[list[list[int]]]:
    return [list(batches) for _ in range(count)]
