"""Files with a SHA-256 for each segment of 64 MiB.

So a commit hashes only the appended bytes, a resumed writer reads at most one segment again, and a
full check can name the damaged place.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage import atomic
from pipeline_lib.storage.appender import Appender
from pipeline_lib.storage.file_checks import check_size
from pipeline_lib.storage.system_calls import Buffer

SEGMENT = 64 << 20
_BLOCK = 1 << 20


@dataclass(frozen=True)
class FileRecord:
    """Committed size of a file in bytes, and the hex SHA-256 of every segment.

    The last segment may be shorter.
    """

    size: int = 0
    segments: tuple[str, ...] = ()


class _SegmentDigests:
    """The segment digests of growing data; ``full``: the known digests of its first segments."""

    def __init__(self, full: Iterable[str] = ()) -> None:
        self._full = list(full)
        self._open = hashlib.sha256()
        self.size = len(self._full) * SEGMENT

    def add(self, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        while len(view):
            part = view[: SEGMENT - self.size % SEGMENT]
            self._open.update(part)
            self.size += len(part)
            if self.size % SEGMENT == 0:
                self._full.append(self._open.hexdigest())
                self._open = hashlib.sha256()
            view = view[len(part) :]

    def record(self) -> FileRecord:
        rest = (self._open.hexdigest(),) if self.size % SEGMENT else ()
        return FileRecord(self.size, (*self._full, *rest))


class SegmentedFile:
    """A file that grows from its committed size; bytes after that are cut off.

    ``DamagedFile`` if it is shorter, or if its last, incomplete segment differs from the commit.
    """

    def __init__(self, path: Path, committed: FileRecord) -> None:
        full = committed.size // SEGMENT
        self._digests = _SegmentDigests(committed.segments[:full])
        self._file = Appender(path, committed.size, hashed=False)
        for block in _blocks(path, full * SEGMENT, committed.size):
            self._digests.add(block)
        if self.record() != committed:
            self._file.close()
            raise DamagedFile(f"the end of {path} is not what was committed")

    def append(self, data: Buffer) -> None:
        """Add bytes at the end; they are durable after ``sync``."""
        if memoryview(data).nbytes:
            self._file.append(data)
            self._digests.add(data)

    @property
    def size(self) -> int:
        """Bytes of the file as it is now."""
        return self._digests.size

    def record(self) -> FileRecord:
        """The record of the file as it is now, for a commit."""
        return self._digests.record()

    def sync(self) -> None:
        """Make everything appended so far durable."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()


def write_segmented(path: Path, data: Buffer) -> FileRecord:
    """Write a whole file and fsync it; its name is durable after ``sync_folder``."""
    atomic.write_new(path, [data])
    digests = _SegmentDigests()
    digests.add(data)
    return digests.record()


def check_segments(
    path: Path, record: FileRecord, remedy: str, *, full: bool, exact: bool = False
) -> None:
    """``DamagedFile`` unless the file has the committed bytes.

    ``exact``: it must have no more. ``full``: compare the digests, not only the size.
    """
    check_size(path, record.size, remedy, at_least=not exact)
    for number, expected in enumerate(record.segments if full else ()):
        start = number * SEGMENT
        found = hashlib.sha256()
        for block in _blocks(path, start, min(start + SEGMENT, record.size)):
            found.update(block)
        if found.hexdigest() != expected:
            raise DamagedFile(f"{path} was changed, from byte {start:,} on; {remedy}")


def _blocks(path: Path, start: int, stop: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while start < stop and (block := file.read(min(_BLOCK, stop - start))):
            start += len(block)
            yield block
