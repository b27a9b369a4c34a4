"""A file that only grows: what a commit counted is kept, the rest does not exist."""

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage.system_calls import Buffer, explain_os_errors, system, write_all

EARLY_SYNC = 64 << 20
_BLOCK = 1 << 20


class Appender:
    """An append-only file with a running SHA-256 of everything it holds.

    ``committed`` bytes of an existing file are kept (and hashed), the rest is cut off:
    what no commit named does not exist. ``DamagedFile`` if the file is shorter. With
    ``cut=False`` nothing is changed until ``cut`` is called, which must come before ``append``.

    After every ``EARLY_SYNC`` bytes an fsync begins in a thread, so that ``sync`` waits for
    little: gigabytes may come between two commits.
    """

    def __init__(
        self, path: Path, committed: int = 0, *, hashed: bool = True, cut: bool = True
    ) -> None:
        self.path = path
        self.size = committed
        self._digest = hashlib.sha256() if hashed else None
        self._syncer = ThreadPoolExecutor(1)  # begins a thread only when it is first used
        self._early: Future[None] | None = None
        self._unsynced = 0
        with explain_os_errors(path):
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            self._fd = os.open(path, flags, 0o644)
        try:
            self._keep(committed)
            if cut:
                self.cut()
        except BaseException:
            self.close()
            raise

    def _keep(self, committed: int) -> None:
        found = os.fstat(self._fd).st_size
        if found < committed:
            raise DamagedFile(
                f"{self.path} holds {found:,} bytes but {committed:,} were committed; "
                "it was cut after the commit"
            )
        if self._digest is not None:
            self._hash_prefix(committed)
        os.lseek(self._fd, committed, os.SEEK_SET)

    def cut(self) -> None:
        """Cut off what lies behind the committed bytes."""
        if os.fstat(self._fd).st_size > self.size:
            with explain_os_errors(self.path):
                system.ftruncate(self._fd, self.size)

    def _hash_prefix(self, size: int) -> None:
        position = 0
        while position < size:
            block = os.pread(self._fd, min(_BLOCK, size - position), position)
            self._digest.update(block)  # type: ignore[union-attr]
            position += len(block)

    def append(self, data: Buffer) -> None:
        """Add bytes at the end; durable after ``sync``."""
        view = memoryview(data).cast("B")
        with explain_os_errors(self.path):
            write_all(self._fd, view)
        if self._digest is not None:
            self._digest.update(view)
        self.size += len(view)
        self._unsynced += len(view)
        if self._unsynced >= EARLY_SYNC:
            self._sync_early()

    def _sync_early(self) -> None:
        if self._early is None or self._early.done():
            self._await_early()
            self._early, self._unsynced = self._syncer.submit(system.fsync, self._fd), 0

    def _await_early(self) -> None:
        early, self._early = self._early, None
        if early is not None:
            with explain_os_errors(self.path):
                early.result()  # an error of fsync is told once, so it must not be lost here

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of the ``size`` bytes so far."""
        if self._digest is None:
            raise ValueError(f"{self.path} was opened with hashed=False and has no digest")
        return self._digest.copy().hexdigest()

    def sync(self) -> None:
        """Make everything appended so far durable."""
        self._await_early()
        with explain_os_errors(self.path):
            system.fsync(self._fd)
        self._unsynced = 0

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._syncer.shutdown()  # the file must stay open until an early fsync is done
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
