"""What this machine has left: memory under the container's limit, space on each volume.

The host's free memory is not what a container may use, so the limits of control groups,
versions 1 and 2, are read from wherever the process is and from all groups above it. ``root``
is where the tree of files of the kernel begins, for tests.
"""

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_M_ARENA_MAX, _M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -8, -3, -1  # malloc.h
SLACK_BYTES = 64 << 20
"""Free memory that is not worth giving back."""
_UNLIMITED = 1 << 60  # version 1 writes a huge number where there is no limit


class Memory(NamedTuple):
    """Bytes a process may still use, and whether a container sets that bound."""

    available: int
    container: bool


class Volume(NamedTuple):
    """A file system: its device number, an existing folder on it, and free bytes."""

    device: int
    folder: Path
    free: int


def available_memory(root: Path = Path("/")) -> Memory:
    """The smaller of what the host has left and what the container's limits leave."""
    host = _host_memory(root)
    left = [limit - used for limit, used in _limits(root)]
    if left and min(left) < host:
        return Memory(max(min(left), 0), True)
    return Memory(host, False)


def held_memory(root: Path = Path("/")) -> int:
    """Bytes of anonymous memory that this process holds; 0 where the kernel does not say."""
    for line in _text(root / "proc/self/status").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def volume_of(path: Path) -> Volume:
    """The volume a path is on or would be created on: that of its nearest existing ancestor."""
    folder = Path(os.path.realpath(path))
    while not folder.exists():
        folder = folder.parent
    return Volume(folder.stat().st_dev, folder, shutil.disk_usage(folder).free)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, links not followed; 0 if it is absent."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            total += path.lstat().st_size if os.path.lexists(path) else 0
    return total


def _host_memory(root: Path) -> int:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    import psutil

    return int(psutil.virtual_memory().available)


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """(limit, memory in use that can not be given back) of every group that has a limit."""
    base = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            yield from _walk(base, group, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            v1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _walk(base / "memory", group, *v1)


def _walk(
    base: Path, group: str, limit_name: str, used_name: str, reclaimable: str
) -> Iterator[tuple[int, int]]:
    # inside a container the path may be the host's, which is not visible: then the root counts
    parts = [part for part in group.split("/") if part not in ("", "..")]
    for depth in range(len(parts), -1, -1):
        folder = base.joinpath(*parts[:depth])
        limit, used = _number(folder / limit_name), _number(folder / used_name)
        if limit is not None and limit < _UNLIMITED:
            yield limit, max((used or 0) - _statistic(folder / "memory.stat", reclaimable), 0)


def _statistic(path: Path, name: str) -> int:
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    """The content of a small file; empty where there is none to read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def keep_heap_small() -> None:
    """For a process whose threads hand buffers to each other: at most one heap for each core, and
    large blocks outside of the heaps, where they leave no holes.

    A heap then shrinks by ``release_memory`` alone, not whenever its end is free, which would cost
    a page fault for every page that grows again. Does nothing where glibc is not in use.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, os.cpu_count() or 1)
        set_option(_M_MMAP_THRESHOLD, 6 << 20)
        set_option(_M_TRIM_THRESHOLD, 1 << 30)


def release_memory() -> None:
    """Give free memory back to the system: Arrow's, and the pages of the C heap (of the C libraries
    only glibc keeps them)."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class MemoryCeiling:
    """Keeps the memory of a process from creeping up.

    Objects of all sizes that are freed in another order than they were made would let the heap grow
    for hours. Up to ``room`` bytes above the memory held at the start nothing is done, which is
    fastest: pages that were given back are cleared again when they return.
    """

    def __init__(self, room: int = SLACK_BYTES) -> None:
        release_memory()
        self._ceiling = self._next = held_memory() + room

    def enforce(self) -> bool:
        """Give free memory back if the process holds too much. Returns whether it still is at the
        ceiling, so that a cache should be dropped. Cheap enough to be called after every batch."""
        held, high = held_memory(), False
        if held > self._next:
            release_memory()
            held = held_memory()
            high = held + SLACK_BYTES > self._ceiling
            self._next = held + SLACK_BYTES  # where the need itself is above the ceiling
        self._next = max(self._ceiling, min(self._next, held + SLACK_BYTES))
        return high
