"""Which share of the samples this process takes: its rank, and the number of processes."""

import os
import sys
from collections.abc import Mapping
from numbers import Integral
from typing import Any, Literal, NamedTuple

from pipeline_lib.errors import WorldUnknown

LAUNCHED = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
"""Variables in which torchrun, accelerate, Open MPI, MPICH and srun say how many processes run."""
_WAYS = (
    "world='group' takes the rank and the size of the process group, so each process gets its own "
    "samples; rank=0, world_size=1 gives every process all of them, which is right where a "
    "wrapper such as accelerate deals them out, or where each process trains by itself"
)


class World(NamedTuple):
    """This process is number ``rank``, from 0, of ``size`` processes."""

    rank: int
    size: int


ALONE = World(0, 1)


def place_in_world(
    rank: int | None, world_size: int | None, world: Literal["group"] | None
) -> World:
    """The rank and size that were given, or with ``world="group"`` those of the process group.

    If nothing is given, one process is alone. Where a process group or a launcher says that there
    are several, ``WorldUnknown`` names the ways: else every process would train on the same
    samples. ``ValueError`` for a rank or a size that can not be, or for half of a place.
    """
    if world is not None:
        if world != "group" or rank is not None or world_size is not None:
            raise ValueError(
                f"world is {world!r}, rank {rank!r}, world_size {world_size!r}; it must be "
                "world='group' alone, or a rank and a world_size"
            )
        return _of_the_group()
    if rank is None and world_size is None:
        return _only_process()
    return _given(rank, world_size)


def _given(rank: Any, world_size: Any) -> World:
    for name, value in (("rank", rank), ("world_size", world_size)):
        if not isinstance(value, Integral) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}; rank and world_size must both be whole numbers")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank is {rank}; it must lie in range(world_size), range({world_size})")
    return World(int(rank), int(world_size))


def _of_the_group() -> World:
    group = _process_group()
    if group is None:
        raise WorldUnknown(
            "world='group', but this process is in no process group; call "
            "torch.distributed.init_process_group() before, or give rank and world_size"
        )
    return group


def _only_process() -> World:
    group = _process_group()
    if group is not None and group.size > 1:
        raise WorldUnknown(
            f"this process is number {group.rank} of a group of {group.size}, and neither rank "
            f"and world_size nor world is given: {_WAYS}"
        )
    if group is None and (said := _launched(os.environ)):
        raise WorldUnknown(
            f"{said} says that several processes run, and neither rank and world_size nor world "
            f"is given: {_WAYS}. For world='group', call init_process_group() before"
        )
    return ALONE


def _process_group() -> World | None:
    """The place in the default process group; who made one has loaded ``torch.distributed``."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return World(distributed.get_rank(), distributed.get_world_size())


def _launched(environment: Mapping[str, str]) -> str:
    """``NAME=number`` of the first variable that names more than one process, else nothing."""
    counts = ((name, environment.get(name, "").strip()) for name in LAUNCHED)
    return next((f"{n}={c}" for n, c in counts if c.isdecimal() and int(c) > 1), "")
