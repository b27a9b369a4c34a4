"""A lock, so that only one process at a time works in a folder.

The lock is ``flock`` on a file. The existence of the file means nothing, because a killed process
leaves it behind. After locking, the open file is compared with the file at the path, so the holder
may safely remove the file.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType

from pipeline_lib.errors import Locked, PipelineError
from pipeline_lib.storage.system_calls import explain_os_errors

_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


class FolderLock:
    """Context manager that locks the file ``path``; ``Locked`` if another process holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def __enter__(self) -> "FolderLock":
        while True:
            with explain_os_errors(self.path):
                fd = os.open(self.path, _OPEN, 0o600)
            try:
                self._acquire(fd)
                if self._is_at_path(fd):
                    break
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # someone removed the file between open and lock: take the new one
        self._fd = fd
        with contextlib.suppress(OSError):  # only messages need the id, and the disk may be full
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        return self

    def _acquire(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(fd, 64, 0).decode("ascii", "replace").strip() or "unknown"
            raise Locked(
                f"{self.path.parent} is in use by process {holder}; wait for it or stop it, "
                "then run the same command again"
            ) from error
        except OSError as error:
            raise PipelineError(
                f"{self.path} can not be locked ({error.strerror}); use a folder on a local disk"
            ) from error

    def _is_at_path(self, fd: int) -> bool:
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        here = os.fstat(fd)
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)
