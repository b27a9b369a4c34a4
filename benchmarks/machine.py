"""The machine: what it is, how busy it is, and what a process tree uses.

Memory is anonymous memory: mapped file pages do not count, pages shared after a fork count once
in each process.
"""

import contextlib
import importlib.metadata
import os
import platform
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

PACKAGES = ("gigatoken", "tokenizers", "numpy", "pyarrow", "torch", "datasets", "transformers")
QUIET_CORES, PATIENCE_SECONDS = 0.25, 60.0
SAMPLE_SECONDS = 0.05
KINDS = ("user", "nice", "system", "irq", "softirq")
"""Of CPU time that is not idle."""


def facts() -> str:
    """One paragraph: processor, cores, memory, system, versions, load."""
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.*)", info.read_text()) if info.exists() else None
    memory = psutil.virtual_memory().total / 2**30
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    processor = named[1] if named else platform.machine()
    return (
        f"{processor}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}; {versions}; load {load}"
    )


def busy_seconds() -> float:
    """CPU seconds that all processes have used since the machine started."""
    times = psutil.cpu_times()._asdict()
    return float(sum(times.get(kind, 0.0) for kind in KINDS))


def wait_until_quiet() -> None:
    """Wait until other processes use little, at most ``PATIENCE_SECONDS``."""
    deadline, cores = time.monotonic() + PATIENCE_SECONDS, os.cpu_count() or 1
    while psutil.cpu_percent(1) / 100 * cores > QUIET_CORES and time.monotonic() < deadline:
        pass


class TreeUsage:
    """What a process and its descendants use; ``sample`` has to be called again and again.

    ``memory`` is in bytes, ``peak`` the largest so far. With ``descendants`` the process itself
    does not count.
    """

    def __init__(self, pid: int, *, descendants: bool = False) -> None:
        self.memory = self.peak = 0
        self._pid, self._left_out = pid, {pid} if descendants else set()
        self._cpu: dict[int, float] = {}

    def sample(self) -> None:
        """Look at every process of the tree."""
        memory = 0
        for pid in set(_tree(self._pid)) - self._left_out:
            with contextlib.suppress(psutil.Error):  # it has ended
                process = psutil.Process(pid)
                held = process.memory_info()
                memory += held.rss - getattr(held, "shared", 0)
                self._cpu[pid] = sum(process.cpu_times()[:2])
        self.memory, self.peak = memory, max(self.peak, memory)

    @property
    def cpu(self) -> float:
        """User and system time in seconds, as far as it was sampled."""
        return sum(self._cpu.values())


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError, psutil.Error):  # it has ended
        if sys.platform != "linux":
            yield from (child.pid for child in psutil.Process(pid).children(recursive=True))
            return
        for task in Path(f"/proc/{pid}/task").iterdir():  # many times faster than psutil
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


@contextlib.contextmanager
def sampling(sample: Callable[[], None]) -> Iterator[None]:
    """Call ``sample`` every 50 ms in a thread, as long as the block runs."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            sample()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
