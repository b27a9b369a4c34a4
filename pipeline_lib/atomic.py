"""The only module that changes files that must survive a crash.

One commit rule stands on it: append data, fsync, then atomically replace one small JSON
that says how much of the data is real, then fsync the folder. Bytes which the JSON does
not name do not exist.

Every system call that changes the disk is reached through ``system``, so a test can make
the n-th one fail, stop the process, or be recorded. An error of fsync is final: the
kernel may have dropped the pages, so nothing here retries one.
"""

import contextlib
import ctypes
import errno
import hashlib
import json
import mmap
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from pipeline_lib.errors import DamagedFile, OutputExists, PipelineError

Buffer = bytes | bytearray | memoryview

_BLOCK = 1 << 20
EARLY_SYNC = 64 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)


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


class WrittenFile(NamedTuple):
    """What was written: size in bytes and hex SHA-256."""

    size: int
    sha256: str


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn a full disk or a refused write into one line that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
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


def _write_all(fd: int, data: Buffer) -> None:
    view = memoryview(data).cast("B")
    while view:
        view = view[system.write(fd, view) :]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        system.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: Path) -> None:
    """Make the content of a file written by someone else durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        system.fsync(fd)
    finally:
        os.close(fd)


def sync_tree(folder: Path) -> None:
    """Make every file and name below a folder durable, the leaves first."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in sorted(names):
            sync_file(Path(root, name))
        sync_folder(Path(root))


def make_folder(folder: Path) -> None:
    """Create a folder and its missing ancestors, durably; an existing one is fine."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with contextlib.suppress(FileExistsError), _naming(folder):
        system.mkdir(folder)
    sync_folder(folder.parent)


def write_new(path: Path, chunks: Iterable[Buffer]) -> WrittenFile:
    """Write a file in one go and fsync it; its name is durable after ``sync_folder``."""
    digest, size = hashlib.sha256(), 0
    with _naming(path):
        fd = os.open(path, _NEW, 0o644)
        try:
            for chunk in chunks:
                _write_all(fd, chunk)
                digest.update(chunk)
                size += len(memoryview(chunk).cast("B"))
            system.fsync(fd)
        finally:
            os.close(fd)
    return WrittenFile(size, digest.hexdigest())


def write_copy(path: Path, head: bytes, source: Path, skip: int) -> WrittenFile:
    """Write ``head`` and what ``source`` holds behind its first ``skip`` bytes as a new file,
    fsynced; hashing runs beside the copying and takes longer than it."""
    with _naming(path), source.open("rb") as file, ThreadPoolExecutor(1) as hasher:
        hashed = hasher.submit(_sha256_behind, head, file.fileno(), skip)
        fd = os.open(path, _NEW, 0o644)
        try:
            _write_all(fd, head)
            size = skip
            while block := os.pread(file.fileno(), _BLOCK, size):
                _write_all(fd, block)
                size += len(block)
            system.fsync(fd)
        finally:
            os.close(fd)
        return WrittenFile(len(head) + size - skip, hashed.result())


def _sha256_behind(head: bytes, fd: int, skip: int) -> str:
    digest = hashlib.sha256(head)
    with (
        mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
        view[skip:] as rest,
    ):
        digest.update(rest)
    return digest.hexdigest()


def replace_bytes(path: Path, data: Buffer) -> None:
    """Replace a file: temporary sibling, fsync, rename over, fsync of the folder."""
    temporary = path.with_name(path.name + ".tmp")
    write_new(temporary, [data])
    with _naming(path):
        system.replace(temporary, path)
        sync_folder(path.parent)


def save_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically and durably."""
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    replace_bytes(path, text.encode("utf-8"))


def load_json(path: Path) -> Any:
    """Read a JSON file; ``DamagedFile`` if it is not one, ``FileNotFoundError`` if absent."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DamagedFile(
            f"{path} is not valid JSON ({error}); it was damaged after it was written. "
            "Restore it from a copy, or remove it if what it describes may be made again"
        ) from error


def keep_previous(path: Path, previous: Path) -> None:
    """Give the file a second name, which then survives the next replacement of the first."""
    remove(previous)
    system.link(path, previous)


def set_aside(path: Path, aside: Path) -> None:
    """Rename a file over another name, durably; an absent one is fine."""
    with contextlib.suppress(FileNotFoundError):
        system.replace(path, aside)
        sync_folder(aside.parent)


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or folder to a name that must be free, durably on both sides."""
    try:
        system.rename_new(str(source), str(target))
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise PipelineError(
                f"{source} and {target} are on different file systems, so the rename can not be "
                "atomic; choose an output folder whose parent is an ordinary folder"
            ) from error
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise OutputExists(
                f"{target} already exists and is never replaced; move it away or choose "
                "another folder"
            ) from error
        raise
    sync_folder(target.parent)
    if source.parent != target.parent:
        sync_folder(source.parent)


def publish_folder(staging: Path, target: Path) -> None:
    """Make a complete folder appear under its final name by one rename.

    ``OutputExists`` if the name is taken, even by an empty folder.
    """
    sync_tree(staging)
    rename_new(staging, target)


def remove(path: Path) -> None:
    """Remove a file; an absent one is fine."""
    with contextlib.suppress(FileNotFoundError):
        system.unlink(path)


def remove_tree(folder: Path) -> None:
    """Remove a folder and what is in it; an absent one is fine."""
    if folder.exists():
        system.rmtree(folder)


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
        with _naming(path):
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
        with _naming(self.path):
            _write_all(self._fd, view)
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
            with _naming(self.path):
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
        with _naming(self.path):
            system.fsync(self._fd)
        self._unsynced = 0

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._syncer.shutdown()  # the file must stay open until an early fsync is done
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
