"""The system calls that change the disk; all code calls them through ``system``.

So a test can let the n-th call fail, stop the process there, or record all calls. An error of fsync
is final: the kernel may have dropped the pages, so nothing here retries an fsync.
"""

import contextlib
import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from pipeline_lib.errors import PipelineError

Buffer = bytes | bytearray | memoryview


def _fsync(fd: int) -> None:
    """Fsync that reaches the medium; on macOS plain fsync stops at the drive's own cache."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


_AT_FDCWD = -100  # fcntl.h
_NO_REPLACE, _EXCHANGE = 1, 2  # linux/fs.h
_DARWIN_EXCL, _DARWIN_SWAP = 4, 2  # sys/stdio.h
_MISSING = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
"""Errors of a file system that lacks such a rename."""


def _special_rename(source: str, target: str, linux: int, darwin: int) -> int:
    """A rename with a flag; 0, or the error number."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths = (os.fsencode(source), os.fsencode(target))
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        code = libc.renamex_np(*paths, darwin)
    elif hasattr(libc, "renameat2"):
        code = libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], linux)
    else:
        return errno.ENOSYS
    return ctypes.get_errno() if code else 0


def _rename_new(source: str, target: str) -> None:
    """Rename that never replaces the target, not even an empty folder."""
    number = _special_rename(source, target, _NO_REPLACE, _DARWIN_EXCL)
    if number in _MISSING:  # a check, then a rename
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        os.rename(source, target)
    elif number:
        raise OSError(number, os.strerror(number), source, None, target)


def _exchange(one: str, other: str) -> None:
    """Give two folders each other's names, in one step."""
    number = _special_rename(one, other, _EXCHANGE, _DARWIN_SWAP)
    if number:
        raise OSError(number, os.strerror(number), one, None, other)


system = SimpleNamespace(
    write=os.write,
    fsync=_fsync,
    ftruncate=os.ftruncate,
    replace=os.replace,
    rename_new=_rename_new,
    exchange=_exchange,
    link=os.link,
    unlink=os.unlink,
    mkdir=os.mkdir,
    rmtree=shutil.rmtree,
)


@contextlib.contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn a full disk or a refused write into a ``PipelineError`` that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise PipelineError(
                f"can not write {path}: {error.strerror}; raise the limit for the size of a file "
                "(ulimit -f), or use a file system that holds larger ones, then run the same "
                "command again, with --resume if the run had started"
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PipelineError(
                f"can not write {path}: {error.strerror} ({_room(path)} left there); make room, "
                "then run the same command again, with --resume if the run had started"
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise PipelineError(
                f"can not write {path}: {error.strerror}; choose a folder that can be written to"
            ) from error
        raise


def _room(path: Path) -> str:
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    found = os.statvfs(folder)
    free = f"{found.f_bavail * found.f_frsize:,} bytes"
    return free if found.f_favail or not found.f_files else f"no free inodes, {free}"


def write_all(fd: int, data: Buffer) -> None:
    """Write every byte, also if the system writes only a part of them at a time."""
    view = memoryview(data).cast("B")
    while view:
        view = view[system.write(fd, view) :]
