"""One worker in a folder at a time, and a dead one's lock means nothing."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_lib.errors import Locked, PipelineError
from pipeline_lib.storage.lock import FolderLock

HOLD = """
import sys
from pathlib import Path
from pipeline_lib.storage.lock import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_worker_is_told_who_works_there(tmp_path: Path) -> None:
    with (
        FolderLock(tmp_path / "lock"),
        pytest.raises(Locked, match=f"in use by process {os.getpid()}; wait for it or stop it"),
        FolderLock(tmp_path / "lock"),
    ):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdin is not None
    with holder, holder.stdin, holder.stdout:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Locked, match=f"process {holder.pid}"):
            FolderLock(tmp_path / "lock").__enter__()
        holder.kill()
        holder.wait()
    with FolderLock(tmp_path / "lock"):
        pass


def test_a_lock_file_left_behind_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"4711" * 9 + b"\n")
    with FolderLock(tmp_path / "lock"):
        assert (tmp_path / "lock").read_bytes() == f"{os.getpid()}\n".encode()


def test_the_holder_may_remove_the_file(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "lock"):
        (tmp_path / "lock").unlink()
        with FolderLock(tmp_path / "lock"):
            assert (tmp_path / "lock").exists()


def test_a_lock_on_a_file_that_was_removed_while_it_was_opened_is_not_taken_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next worker locks a new file of that name, and two work in the folder."""
    lock, real = FolderLock(tmp_path / "lock"), fcntl.flock
    removed: list[int] = []

    def late(fd: int, how: int) -> None:
        if len(removed) < 3:  # between open and flock the holder before us went away
            (tmp_path / "lock").unlink()
            removed.append(fd)
        if len(removed) == 2:
            (tmp_path / "lock").write_bytes(b"")  # and somebody made it again
        real(fd, how)

    monkeypatch.setattr("fcntl.flock", late)
    with lock, pytest.raises(Locked), FolderLock(tmp_path / "lock"):
        pass
    assert len(removed) == 3


def test_a_lock_is_given_back_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), FolderLock(tmp_path / "lock"):
        _ = 1 / 0
    with FolderLock(tmp_path / "lock"):
        pass


def test_a_folder_that_can_not_be_written_to_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *more: int) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch, pytest.raises(PipelineError, match="choose a folder that"):
        patch.setattr(os, "open", refuse)
        FolderLock(tmp_path / "lock").__enter__()


def test_a_full_disk_does_not_keep_a_run_from_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*more: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse)
    with FolderLock(tmp_path / "lock"), pytest.raises(Locked, match="process unknown"):
        FolderLock(tmp_path / "lock").__enter__()


def test_a_file_system_without_locks_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(PipelineError, match=r"can not be locked .* use a folder on a local disk"):
        FolderLock(tmp_path / "lock").__enter__()
