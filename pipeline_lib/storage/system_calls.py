"""The system calls that change the disk, each reached through ``system``.

So a test can make the n-th one fail, stop the process, or be recorded. An error of fsync is
final: the kernel may have dropped the pages, so nothing here retries one.
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
    """Fsync that reaches the medium on macOS too, where plain fsync stops at the drive."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def _rename_new(source: str, target: str) -> None:
    """Rename that never replaces, not even an empty folder."""
    libc = ctypes.CDLL(None, use_errno=True)
    here, no_replace = -100, 1
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        code = libc.renamex_np(os.fsencode(source), os.fsencode(target), 4)
    elif hasattr(libc, "renameat2"):
        code = libc.renameat2(here, os.fsencode(source), here, os.fsencode(target), no_replace)
    else:
        code, number = -1, errno.ENOSYS
        ctypes.set_errno(number)
    if code == 0:
        return
    number = ctypes.get_errno()
    if number not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(number, os.strerror(number), source, None, target)
    if os.path.lexists(target):  # the file system lacks the call: a check, then a rename
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(source, target)


system = SimpleNamespace(
    write=os.write,
    fsync=_fsync,
    ftruncate=os.ftruncate,
    replace=os.replace,
    rename_new=_rename_new,
    link=os.link,
    unlink=os.unlink,
    mkdir=os.mkdir,
    rmtree=shutil.rmtree,
)


@contextlib.contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn a full disk or a refused write into one line that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise PipelineError(
                f"can not write {path}: {error.strerror}; raise the limit for the size of a file "
                "(ulimit -f), or use a file system that holds larger ones, then run the same "
                "command again, with --resume if it had begun"
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PipelineError(
                f"can not write {path}: {error.strerror} ({_room(path)} left there); make room, "
                "then run the same command again, with --resume if it had begun"
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
    """Write every byte, however few the system takes at a time."""
    view = memoryview(data).cast("B")
    while view:
        view = view[system.write(fd, view) :]
