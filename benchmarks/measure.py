"""Commands run and measured: one alone, or several ways of doing one thing in turns."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import machine
from cache import PROJECT, clear, scratch

ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}

Command = Sequence[str | Path]
Way = Callable[..., Command]
"""Gives the command that makes the folder ``output``."""


class Run(NamedTuple):
    """One process tree that has ended.

    ``wall`` and ``cpu`` are seconds, ``peak`` is anonymous memory in bytes, ``others`` the number
    of cores that the rest of the machine used meanwhile, ``printed`` what the command printed.
    """

    wall: float
    cpu: float
    peak: int
    others: float
    printed: str

    @property
    def report(self) -> Any:
        """The JSON in the last line that was printed."""
        return json.loads(self.printed.splitlines()[-1])


def run(command: Command, *, status: int = 0) -> Run:
    """Run a command in the project's folder; ``RuntimeError`` if it ends with another status."""
    busy, waited, started = machine.busy_seconds(), _waited_seconds(), time.monotonic()
    process = subprocess.Popen(
        list(map(str, command)),
        cwd=PROJECT,
        env=os.environ | ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    tree = machine.TreeUsage(process.pid)
    with machine.sampling(tree.sample):
        printed, errors = process.communicate()
    wall = time.monotonic() - started
    if process.returncode != status:
        raise RuntimeError(f"{command} ended with {process.returncode}: {errors[-2_000:]}")
    cpu = max(_waited_seconds() - waited, tree.cpu)
    others = max((machine.busy_seconds() - busy - cpu) / wall, 0.0)
    return Run(wall, cpu, tree.peak, others, printed)


def _waited_seconds() -> float:
    """CPU seconds of children that have ended: exact, but without workers that a fork server
    started; those are in the samples."""
    times = os.times()
    return times.children_user + times.children_system


def measure(command: Command) -> Run:
    """Run a command when the machine is quiet."""
    machine.wait_until_quiet()
    last = run(command)
    print(f"  {last.wall:.1f} s, others {last.others:.2f} cores", file=sys.stderr, flush=True)
    return last


def in_turns(
    ways: Mapping[str, Way], repeat: int, look: Callable[[str, Path], None] | None = None
) -> dict[str, list[Run]]:
    """Measure every way ``repeat`` times, the ways in turns, and remove what each made.

    ``look`` is called with the name of a way and what its first run made.
    """
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    for _ in range(repeat):
        for name, way in ways.items():
            output = scratch("output")
            runs[name].append(measure(way(output=output)))
            if look and len(runs[name]) == 1:
                look(name, output)
            clear(output)
    return runs
