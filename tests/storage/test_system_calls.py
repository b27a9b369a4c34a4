"""What the system refuses is said in words; what it does by halves is carried on."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from crashes import seam

from pipeline_lib.errors import OutputExists, PipelineError
from pipeline_lib.storage import atomic, folders, system_calls
from pipeline_lib.storage.appender import Appender


def test_short_writes_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_calls.system, "write", lambda fd, data: os.write(fd, data[:3]))
    atomic.write_new(tmp_path / "data", [b"0123456789"])
    assert (tmp_path / "data").read_bytes() == b"0123456789"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_line_that_names_the_file(tmp_path: Path, code: int) -> None:
    failure = OSError(code, os.strerror(code))
    with (
        seam(1, error=failure),
        pytest.raises(PipelineError, match=r"can not write .*data.* bytes left there\); make room"),
    ):
        atomic.write_new(tmp_path / "data", [b"x"])


def test_a_limit_for_files_is_not_called_a_full_disk(tmp_path: Path) -> None:
    with (
        seam(1, error=OSError(errno.EFBIG, os.strerror(errno.EFBIG))),
        pytest.raises(PipelineError, match=r"can not write .*data.*; raise the limit .*ulimit -f"),
    ):
        atomic.write_new(tmp_path / "data", [b"x"])


CALLS: dict[str, Callable[[Path], object]] = {
    "link": lambda folder: atomic.keep_previous(folder / "data", folder / "other"),
    "replace": lambda folder: atomic.set_aside(folder / "data", folder / "other"),
    "rename_new": lambda folder: folders.rename_new(folder / "data", folder / "other"),
    "mkdir": lambda folder: folders.make_folder(folder / "other"),
    "ftruncate": lambda folder: Appender(folder / "data", 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_whatever_call_a_full_disk_refuses_the_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").write_bytes(b"xx")
    failure = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        seam(1, only=name, error=failure),
        pytest.raises(PipelineError, match=r"can not write .*/(other|data): No space .*make room"),
    ):
        CALLS[name](tmp_path)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_folder_that_can_not_be_written_to_is_not_called_full(tmp_path: Path, code: int) -> None:
    with (
        seam(1, error=OSError(code, os.strerror(code))),
        pytest.raises(PipelineError, match="choose a folder that can be written to"),
    ):
        atomic.write_new(tmp_path / "data", [b"x"])


def test_where_the_system_lacks_the_exclusive_rename_a_check_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bare:
        """A C library without the call."""

    monkeypatch.setattr(system_calls.ctypes, "CDLL", lambda *a, **k: Bare())
    (tmp_path / "one").mkdir()
    folders.rename_new(tmp_path / "one", tmp_path / "two")
    (tmp_path / "one").mkdir()
    with pytest.raises(OutputExists):
        folders.rename_new(tmp_path / "one", tmp_path / "two")


def test_a_rename_that_the_system_refuses_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(b"")
    one, two, none = (str(tmp_path / name) for name in ("one", "two", "none"))
    with pytest.raises(FileExistsError):
        system_calls.system.rename_new(one, two)
    for refused in ((one, none), (none, one)):
        with pytest.raises(OSError):
            system_calls.system.exchange(*refused)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")} == {
        "one", "one/one", "two", "two/two",
    }  # fmt: skip


def test_two_folders_change_names_in_one_step(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(b"")
    try:
        system_calls.system.exchange(str(tmp_path / "one"), str(tmp_path / "two"))
    except OSError as error:
        pytest.skip(f"this file system can not: {error}")
    assert (tmp_path / "one" / "two").exists() and (tmp_path / "two" / "one").exists()
