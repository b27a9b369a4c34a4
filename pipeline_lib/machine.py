"""Free memory and disk space of this machine, and tools that keep a process small.

A container may use less than the free memory of the host. So the limits of control groups (versions
1 and 2) are read, for the group of this process and all groups above it. ``root`` is the folder
that holds ``proc`` and ``sys``; tests pass another one.
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
"""Bytes of free memory that are not worth giving back to the system."""
_UNLIMITED = 1 << 60  # version 1 writes a huge number where there is no limit


class Memory(NamedTuple):
    """Bytes a process may still use, and whether a container sets that bound."""

    available: int
    container: bool


class Volume(NamedTuple):
    """A file system: its device number, an existing folder on it, its free bytes."""

    device: int
    folder: Path
    free: int


def available_memory(root: Path = Path("/")) -> Memory:
    """The free memory of the host, or of the container if its limits leave less."""
    host = _host_memory(root)
    left = [limit - used for limit, used in _limits(root)]
    if left and min(left) < host:
        return Memory(max(min(left), 0), True)
    return Memory(host, False)


def held_memory(root: Path = Path("/")) -> int:
    """Bytes of anonymous memory that this process holds; 0 if the kernel does not report it."""
    for line in _text(root / "proc/self/status").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def volume_of(path: Path) -> Volume:
    """The volume on which a path is, or would be created: that of its nearest existing ancestor."""
    folder = Path(os.path.realpath(path))
    while not folder.exists():
        folder = folder.parent
    return Volume(folder.stat().st_dev, folder, shutil.disk_usage(folder).free)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, without following links; 0 if it is absent."""
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
    """(limit, memory in use that can not be reclaimed), in bytes, of every group with a limit."""
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
    # a container may see the path of the host, which does not exist inside: the root group counts
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
    """The content of a small file; empty if it can not be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def keep_heap_small() -> None:
    """Configure glibc for a process whose threads pass buffers to each other.

    There is at most one heap for each core. Large blocks are outside the heaps, where they leave no
    holes. Only ``release_memory`` shrinks a heap: shrinking it whenever its end is free would cost
    a page fault for every page that it grows again. Without glibc nothing is done.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, os.cpu_count() or 1)
        set_option(_M_MMAP_THRESHOLD, 6 << 20)
        set_option(_M_TRIM_THRESHOLD, 1 << 30)


def release_memory() -> None:
    """Give free memory of Arrow and of the C heap back to the system.

    The C heap needs it only with glibc: other C libraries do not keep free pages.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class MemoryCeiling:
    """Keeps the memory of a process from growing slowly.

    A process that frees objects of many sizes in another order than it creates them would grow for
    hours. Up to ``room`` bytes above the memory at the start nothing is done. This is fastest,
    because the system clears every page that was given back and is needed again.
    """

    def __init__(self, room: int = SLACK_BYTES) -> None:
        release_memory()
        self._ceiling = self._next = held_memory() + room

    def enforce(self) -> bool:
        """Give free memory back to the system if the process holds too much.

        Returns True if it still holds too much, so the caller should drop a cache. It is cheap
        enough to be called after every batch.
        """
        held, high = held_memory(), False
        if held > self._next:
            release_memory()
            held = held_memory()
            high = held + SLACK_BYTES > self._ceiling
            self._next = held + SLACK_BYTES  # the process may need more than the ceiling
        self._next = max(self._ceiling, min(self._next, held + SLACK_BYTES))
        return high
