"""A file that only grows: the bytes that a commit counted are kept, the rest is cut off."""

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage.system_calls import Buffer, explain_os_errors, system, write_all

EARLY_SYNC = 64 << 20
_BLOCK = 1 << 20


class Appender:
    """An append-only file with a running SHA-256 of its content.

    The first ``committed`` bytes of an existing file are kept (and, if ``hashed``, hashed). The
    rest is cut off, because no commit counted it. ``DamagedFile`` if the file is shorter. With
    ``cut=False`` the file is not changed until ``cut`` is called, before the first ``append``.

    After every ``EARLY_SYNC`` bytes an fsync starts in a thread, so that ``sync`` has little to
    wait for: there may be gigabytes between two commits.
    """

    def __init__(
        self, path: Path, committed: int = 0, *, hashed: bool = True, cut: bool = True
    ) -> None:
        self.path = path
        self.size = committed
        self._digest = hashlib.sha256() if hashed else None
        self._syncer = ThreadPoolExecutor(1)  # starts its thread only on first use
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
        """Cut off the bytes after the committed ones."""
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
        """Add bytes at the end; they are durable after ``sync``."""
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
                early.result()  # the kernel reports an error of fsync once: do not lose it

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
        """Close the file; a second call does nothing."""
        self._syncer.shutdown()  # the file must stay open until an early fsync is done
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
