"""accelerate deals out the batches of a loader itself: it is told rank 0 of 1 in every process."""

import copy
import multiprocessing
import os
import socket
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from published_folders import publish

from pipeline_lib import BatchOrder, ShardedTokenDataset, loader
from pipeline_lib.errors import PipelineError, ReadAhead

pytestmark = [
    pytest.mark.consumers,
    pytest.mark.filterwarnings("ignore"),  # of libraries that are not ours
]
WINDOWS, BATCH = 24, 3


@pytest.fixture
def dataset(tmp_path: Path) -> ShardedTokenDataset:
    return ShardedTokenDataset(publish(tmp_path / "out", [*range(2 * WINDOWS + 1)]), "train", 2)


def windows(batches: Any) -> list[list[int]]:
    return [[first // 2 for first in batch[0][:, 0].tolist()] for batch in batches]


def _process(rank: int, port: int, dataset: ShardedTokenDataset, answers: Any) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    try:
        loader(dataset, BATCH)
        refused = ""
    except PipelineError as error:
        refused = str(error)
    batches = accelerator.prepare(loader(dataset, BATCH, seed=3, rank=0, world_size=1))
    answers.put((rank, refused, [windows(batches) for _ in range(2)]))
    accelerator.wait_for_everyone()
    accelerator.end_training()


def test_two_processes_share_every_epoch_when_each_is_told_that_it_is_alone(
    dataset: ShardedTokenDataset,
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    both = [context.Process(target=_process, args=(r, port, dataset, queue)) for r in range(2)]
    for process in both:
        process.start()
    (_, refused, first), (_, _, second) = sorted(queue.get(timeout=120) for _ in both)
    for process in both:
        process.join()
    assert "rank=0, world_size=1 gives every process all of them" in refused
    alone = loader(dataset, BATCH, seed=3)
    for mine, others in zip(first, second, strict=True):
        dealt = [batch for pair in zip(mine, others, strict=True) for batch in pair]
        assert dealt == windows(alone)


def test_it_reads_one_batch_ahead_and_the_order_says_so(dataset: ShardedTokenDataset) -> None:
    from accelerate.data_loader import prepare_data_loader

    batches = loader(dataset, BATCH, seed=3)
    next(iter(prepare_data_loader(batches)))
    assert batches.order.position == 2 * BATCH
    with pytest.raises(ReadAhead, match="a data loader of accelerate has read up to position 6"):
        batches.state_dict()


@pytest.mark.parametrize(("epoch", "taken"), [(0, 3), (1, 2), (1, 7)])
def test_its_stateful_loader_gives_exactly_the_rest(
    dataset: ShardedTokenDataset, epoch: int, taken: int
) -> None:
    from accelerate.data_loader import prepare_data_loader

    def made() -> Any:
        return prepare_data_loader(
            loader(dataset, BATCH, seed=3), num_processes=1, use_stateful_dataloader=True
        )

    reference = loader(dataset, BATCH, seed=3)
    whole = [windows(reference) for _ in range(3)]
    first = made()
    assert [windows(first) for _ in range(epoch)] == whole[:epoch]
    begun = iter(first)
    assert windows(islice(begun, taken)) == whole[epoch][:taken]
    again = made()
    again.load_state_dict(copy.deepcopy(first.state_dict()))
    assert windows(again) == whole[epoch][taken:]
    assert isinstance(again.batch_sampler, BatchOrder)
