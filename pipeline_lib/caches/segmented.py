"""An append-only file that is known by the SHA-256 of each 64 MiB of it.

So a commit costs what was appended, an interrupted writer re-reads at most one segment, and a
full check can name the place that is damaged.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline_lib.durable.appender import Appender
from pipeline_lib.durable.syscalls import Buffer
from pipeline_lib.errors import DamagedFile

SEGMENT = 64 << 20
_BLOCK = 1 << 20


@dataclass(frozen=True)
class FileRecord:
    """Committed bytes of a file and the digest of every segment, the last one perhaps short."""

    size: int = 0
    segments: tuple[str, ...] = ()


class SegmentedFile:
    """A file that grows from its committed length; what lies beyond that is cut off.

    ``DamagedFile`` if it is shorter, or if its last, still open segment is not what was committed.
    """

    def __init__(self, path: Path, record: FileRecord) -> None:
        full = record.size // SEGMENT
        self._done = list(record.segments[:full])
        self._hasher = hashlib.sha256()
        self._file = Appender(path, record.size, hashed=False)
        for block in _blocks(path, full * SEGMENT, record.size):
            self._hasher.update(block)
        if self.record() != record:
            self._file.close()
            raise DamagedFile(f"the end of {path} is not what was committed")

    def append(self, data: Buffer) -> None:
        """Add bytes at the end."""
        if memoryview(data).nbytes == 0:
            return
        view = memoryview(data).cast("B")
        start = self._file.size
        self._file.append(view)
        while len(view):
            room = SEGMENT - start % SEGMENT
            self._hasher.update(view[:room])
            start += len(view[:room])
            if start % SEGMENT == 0:
                self._done.append(self._hasher.hexdigest())
                self._hasher = hashlib.sha256()
            view = view[room:]

    def record(self) -> FileRecord:
        """What a commit has to say of the file as it is now."""
        size = self._file.size
        rest = (self._hasher.hexdigest(),) if size % SEGMENT else ()
        return FileRecord(size, (*self._done, *rest))

    def sync(self) -> None:
        """Make everything appended so far durable."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._file.close()


def check_file(path: Path, record: FileRecord, *, full: bool) -> None:
    """``DamagedFile`` unless the committed bytes are there and, with ``full``, are the same."""
    size = path.stat().st_size if path.is_file() else None
    if size is None or size < record.size:
        found = "is missing" if size is None else f"holds {size:,} bytes"
        raise DamagedFile(f"{path} {found}, {record.size:,} bytes were committed")
    for number, expected in enumerate(record.segments if full else ()):
        start = number * SEGMENT
        hasher = hashlib.sha256()
        for block in _blocks(path, start, min(start + SEGMENT, record.size)):
            hasher.update(block)
        if hasher.hexdigest() != expected:
            raise DamagedFile(f"{path} was changed, from byte {start:,} on")


def _blocks(path: Path, start: int, stop: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while start < stop and (block := file.read(min(_BLOCK, stop - start))):
            start += len(block)
            yield block
