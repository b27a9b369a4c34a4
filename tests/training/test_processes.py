"""Each process takes its own samples, or it is said aloud that it takes all of them."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from pipeline_lib.errors import PipelineError, WorldUnknown
from pipeline_lib.training.batch_order import BatchOrder
from pipeline_lib.training.processes import ALONE, LAUNCHED, World, place_in_world

BOTH_WAYS = r"world='group' takes.*rank=0, world_size=1 gives every process all of them"


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LAUNCHED:
        monkeypatch.delenv(name, raising=False)


def test_one_process_is_alone() -> None:
    assert place_in_world(None, None, None) == ALONE
    assert place_in_world(1, 3, None) == World(1, 3)


@pytest.mark.parametrize(
    ("rank", "size"), [(1, 1), (-1, 2), (0, 0), (True, 2), (0, 2.0), (0, None), (None, 2), ("0", 1)]
)
def test_places_that_can_not_be_and_half_a_place_are_refused(rank: Any, size: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        place_in_world(rank, size, None)


@pytest.mark.parametrize(
    ("rank", "size", "world"), [(0, 1, "group"), (None, None, "all"), (0, None, "group")]
)
def test_a_place_is_said_in_one_way(rank: Any, size: Any, world: Any) -> None:
    with pytest.raises(ValueError, match="it must be world='group' alone, or a rank and"):
        place_in_world(rank, size, world)


def test_a_group_that_is_not_there_is_not_taken_for_one_process() -> None:
    with pytest.raises(WorldUnknown, match=r"in no process group; call .*init_process_group"):
        place_in_world(None, None, "group")


@pytest.mark.parametrize("name", LAUNCHED)
def test_a_launcher_of_several_processes_is_believed_before_there_is_a_group(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    assert place_in_world(None, None, None) == ALONE
    monkeypatch.setenv(name, "4")
    with pytest.raises(WorldUnknown, match=f"{name}=4 says that several.*{BOTH_WAYS}"):
        place_in_world(None, None, None)
    assert place_in_world(0, 1, None) == ALONE
    monkeypatch.setenv(name, "many")
    assert place_in_world(None, None, None) == ALONE


def _in_a_group(rank: int, folder: Path, answers: Any) -> None:
    store = dist.FileStore(str(folder / "store"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    try:
        BatchOrder(10, 2)
        refused = ""
    except PipelineError as error:
        refused = str(error)
    mine = [s for batch in BatchOrder(10, 2, seed=5, world="group") for s in batch]
    everything = [s for batch in BatchOrder(10, 2, seed=5, rank=0, world_size=1) for s in batch]
    answers.put((rank, refused, mine, everything))
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    both = [context.Process(target=_in_a_group, args=(rank, tmp_path, queue)) for rank in range(2)]
    for process in both:
        process.start()
    yield sorted(queue.get(timeout=60) for _ in both)
    for process in both:
        process.join()


def test_two_processes_of_a_group_must_say_it_and_then_share_the_samples(
    answers: list[Any],
) -> None:
    for rank, refused, _, everything in answers:
        assert f"this process is number {rank} of a group of 2" in refused
        assert "world='group'" in refused and "rank=0, world_size=1" in refused
        assert sorted(everything) == list(range(10))
    (_, _, first, _), (_, _, second, _) = answers
    assert sorted(first + second) == list(range(10))
