"""Facts about the machine, and one command measured: wall, CPU, memory, and who else was busy.

Peak memory is anonymous memory (``RssAnon``) of the whole process tree, sampled; mapped file
pages do not count, pages shared after a fork count once in each process.
"""

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

PACKAGES = ("gigatoken", "tokenizers", "numpy", "pyarrow", "torch", "datasets", "transformers")
QUIET_CORES = 0.25
SAMPLE_SECONDS = 0.05


def facts(packages: Sequence[str] = PACKAGES) -> str:
    """One paragraph: processor, cores, memory, system, versions, load."""
    versions = ", ".join(f"{name} {version}" for name, version in _versions(packages))
    memory = psutil.virtual_memory().total / 2**30
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}; {versions}; load {load}"
    )


def _versions(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield name, importlib.metadata.version(name)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def wait_until_quiet(patience: float) -> float:
    """Wait, at most ``patience`` seconds, until others use little; returns their cores."""
    deadline = time.monotonic() + patience
    while (busy := _busy_cores(1.0)) > QUIET_CORES and time.monotonic() < deadline:
        pass
    return busy


def _busy_cores(seconds: float) -> float:
    before = _busy_seconds()
    time.sleep(seconds)
    return (_busy_seconds() - before) / seconds


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    names = ("user", "nice", "system", "irq", "softirq")
    return sum(float(getattr(times, name, 0.0)) for name in names)


class Run(NamedTuple):
    """One measured process tree: seconds, CPU seconds, peak anonymous bytes, cores that others
    used meanwhile, and what it printed."""

    wall: float
    cpu: float
    peak: int
    others: float
    output: str


def measure(
    command: Sequence[str | Path], *, folder: Path, environment: Mapping[str, str] | None = None
) -> Run:
    """Run a command to its end; ``SystemExit`` with its last words if it fails."""
    busy, started = _busy_seconds(), time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **_OFFLINE, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with _Peak(process.pid) as peak:
        output, errors = process.communicate()
    wall = time.monotonic() - started
    cpu = peak.cpu_seconds
    if process.returncode:
        tail = "\n".join(errors.splitlines()[-15:])
        raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}\n{tail}")
    others = max((_busy_seconds() - busy - cpu) / wall, 0.0)
    return Run(wall, cpu, peak.bytes, others, output)


_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}


class _Peak:
    """Samples memory and CPU time of a process tree in a thread.

    CPU time is also taken from the waited-for children, which is exact but leaves out workers
    that a fork server started; the larger of the two counts.
    """

    def __init__(self, pid: int) -> None:
        self.bytes, self.cpu_seconds = 0, 0.0
        self._pid, self._stop = pid, threading.Event()
        self._used: dict[int, float] = {}
        self._before = os.times()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Peak":
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._stop.set()
        self._thread.join()
        now = os.times()
        waited = now.children_user + now.children_system
        waited -= self._before.children_user + self._before.children_system
        self.cpu_seconds = max(waited, sum(self._used.values()))

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            size = 0
            for pid in _tree(self._pid):
                size += anonymous_bytes(pid)
                self._used[pid] = max(_cpu_seconds(pid), self._used.get(pid, 0.0))
            self.bytes = max(self.bytes, size)


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _tree(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    if not sys.platform.startswith("linux"):
        with contextlib.suppress(psutil.Error):
            yield from [pid, *(child.pid for child in psutil.Process(pid).children(True))]
        return
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def children_bytes() -> int:
    """Anonymous memory of all descendants of this process."""
    return sum(anonymous_bytes(pid) for pid in _tree(os.getpid()) if pid != os.getpid())


def anonymous_bytes(pid: int | str = "self") -> int:
    """Anonymous resident memory of one process; all resident memory where that is unknown."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if sys.platform.startswith("linux"):
        return 0  # it has ended
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(None if pid == "self" else int(pid)).memory_info().rss)
    return 0
