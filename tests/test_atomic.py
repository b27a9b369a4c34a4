"""What a crash can leave of a file is its old or its new content, never something between."""

import errno
import itertools
import json
import os
from pathlib import Path

import pytest
from crashes import seam, survives

from pipeline_lib import atomic
from pipeline_lib.atomic import Appender
from pipeline_lib.digest import sha256_bytes
from pipeline_lib.errors import DamagedFile, OutputExists, PipelineError


def test_json_comes_back_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for value in ({"a": [1, None, "é\u2028"]}, {"b": 2}):
        atomic.save_json(path, value)
        assert atomic.load_json(path) == value
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_death_while_json_is_replaced_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    atomic.save_json(path, "old")
    for at in itertools.count(1):
        if survives(lambda: atomic.save_json(path, "new"), at, torn=True):
            break
        assert atomic.load_json(path) in ("old", "new")
    assert at == 5 and atomic.load_json(path) == "new"


def test_the_name_is_synced_after_the_data_and_before_it_counts(tmp_path: Path) -> None:
    with seam() as watched:
        atomic.save_json(tmp_path / "state.json", 1)
    assert watched.names == ["write", "fsync", "replace", "fsync"]


@pytest.mark.parametrize("data", [b"", b'{"a": 1', b"[" * 100_000, b"\xff\xfe", b"a"])
def test_what_is_not_json_is_damage_that_names_the_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(data)
    with pytest.raises(DamagedFile, match=r"state\.json is not valid JSON"):
        atomic.load_json(path)


def test_an_absent_file_is_not_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        atomic.load_json(tmp_path / "state.json")


def test_a_new_file_reports_its_size_and_hash(tmp_path: Path) -> None:
    written = atomic.write_new(tmp_path / "data", [b"ab", memoryview(b"cd")])
    assert written == (4, sha256_bytes(b"abcd"))
    assert (tmp_path / "data").read_bytes() == b"abcd"


def test_short_writes_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic.system, "write", lambda fd, data: os.write(fd, data[:3]))
    atomic.write_new(tmp_path / "data", [b"0123456789"])
    assert (tmp_path / "data").read_bytes() == b"0123456789"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_one_line_that_names_the_file(tmp_path: Path, code: int) -> None:
    failure = OSError(code, os.strerror(code))
    with (
        seam(1, error=failure),
        pytest.raises(PipelineError, match=r"can not write .*data.* bytes left there\); make room"),
    ):
        atomic.write_new(tmp_path / "data", [b"x"])


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_folder_that_can_not_be_written_to_is_not_called_full(tmp_path: Path, code: int) -> None:
    with (
        seam(1, error=OSError(code, os.strerror(code))),
        pytest.raises(PipelineError, match="choose a folder that can be written to"),
    ):
        atomic.write_new(tmp_path / "data", [b"x"])


def test_a_failed_fsync_is_not_tried_again(tmp_path: Path) -> None:
    with seam(1, only="fsync", error=OSError(errno.EIO, "gone")) as watched, pytest.raises(OSError):
        atomic.save_json(tmp_path / "state.json", 1)
    assert watched.names == ["fsync"] and not (tmp_path / "state.json").exists()


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "state.json.tmp").symlink_to(victim)
    with pytest.raises(OSError):
        atomic.save_json(tmp_path / "state.json", 1)
    assert victim.read_bytes() == b"mine"


def test_the_previous_content_stays_under_its_second_name(tmp_path: Path) -> None:
    path, previous = tmp_path / "now", tmp_path / "before"
    for number in range(3):
        if number:
            atomic.keep_previous(path, previous)
        atomic.save_json(path, number)
    assert (atomic.load_json(path), atomic.load_json(previous)) == (2, 1)


def test_folders_are_made_with_their_ancestors_and_may_exist(tmp_path: Path) -> None:
    for _ in range(2):
        atomic.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("taken", ["empty folder", "full folder", "file"])
def test_publishing_never_replaces_what_is_there(tmp_path: Path, taken: str) -> None:
    target = tmp_path / "target"
    if taken == "file":
        target.write_bytes(b"mine")
    else:
        target.mkdir()
    if taken == "full folder":
        (target / "foreign").write_bytes(b"mine")
    (tmp_path / "staging").mkdir()
    with pytest.raises(OutputExists, match=r"target already exists and is never replaced"):
        atomic.publish_folder(tmp_path / "staging", target)
    assert (tmp_path / "staging").exists()


def test_publishing_syncs_every_file_before_the_name_appears(tmp_path: Path) -> None:
    (tmp_path / "staging" / "deep").mkdir(parents=True)
    (tmp_path / "staging" / "deep" / "data").write_bytes(b"x")
    with seam() as watched:
        atomic.publish_folder(tmp_path / "staging", tmp_path / "target")
    assert watched.names == ["fsync", "fsync", "fsync", "rename_new", "fsync"]
    assert (tmp_path / "target" / "deep" / "data").read_bytes() == b"x"


def test_another_file_system_is_named_as_the_reason(tmp_path: Path) -> None:
    (tmp_path / "staging").mkdir()
    failure = OSError(errno.EXDEV, "cross-device")
    with seam(1, only="rename_new", error=failure), pytest.raises(PipelineError, match="file syst"):
        atomic.publish_folder(tmp_path / "staging", tmp_path / "target")


def test_where_the_system_lacks_the_exclusive_rename_a_check_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bare:
        """A C library without the call."""

    monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *a, **k: Bare())
    (tmp_path / "one").mkdir()
    atomic.rename_new(tmp_path / "one", tmp_path / "two")
    (tmp_path / "one").mkdir()
    with pytest.raises(OutputExists):
        atomic.rename_new(tmp_path / "one", tmp_path / "two")


def test_removing_what_is_absent_is_fine(tmp_path: Path) -> None:
    atomic.remove(tmp_path / "absent")
    atomic.remove_tree(tmp_path / "absent")
    atomic.set_aside(tmp_path / "absent", tmp_path / "aside")
    assert list(tmp_path.iterdir()) == []


def test_an_appender_keeps_what_was_committed_and_cuts_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"committed, and more")
    file = Appender(path, 9)
    file.append(b"!")
    file.sync()
    assert (file.size, file.sha256) == (10, sha256_bytes(b"committed!"))
    file.close()
    file.close()
    assert path.read_bytes() == b"committed!"


def test_an_appender_can_look_before_it_cuts(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"committed, and more")
    file = Appender(path, 9, cut=False)
    assert file.sha256 == sha256_bytes(b"committed")
    assert path.read_bytes() == b"committed, and more"
    file.cut()
    file.close()
    assert path.read_bytes() == b"committed"


def test_an_appender_refuses_a_file_that_lost_committed_bytes(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"short")
    with pytest.raises(DamagedFile, match="holds 5 bytes but 9 were committed"):
        Appender(path, 9)
    assert path.read_bytes() == b"short"


def test_an_appender_without_a_hash_says_that_it_has_none(tmp_path: Path) -> None:
    file = Appender(tmp_path / "data", hashed=False)
    file.append(json.dumps([1]).encode())
    with pytest.raises(ValueError, match="no digest"):
        _ = file.sha256
    file.close()


def test_a_copy_has_a_new_head_and_reports_its_own_hash(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"head" + b"x" * 3_000_000)
    written = atomic.write_copy(tmp_path / "copy", b"other ", tmp_path / "source", 4)
    content = b"other " + b"x" * 3_000_000
    assert (tmp_path / "copy").read_bytes() == content
    assert written == (len(content), sha256_bytes(content))


def test_a_copy_of_nothing_but_a_head_is_the_new_head(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"head")
    assert atomic.write_copy(tmp_path / "copy", b"new", tmp_path / "source", 4).size == 3
    assert (tmp_path / "copy").read_bytes() == b"new"


def test_much_appended_data_begins_to_be_synced_before_a_commit_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "EARLY_SYNC", 10)
    with seam() as watched:
        file = Appender(tmp_path / "data")
        file.append(b"123456789")
        assert "fsync" not in watched.names
        file.append(b"0")
        file.sync()
        file.close()
    assert watched.names == ["write", "write", "fsync", "fsync"]


def test_an_error_of_an_early_fsync_is_told_at_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "EARLY_SYNC", 1)
    file = Appender(tmp_path / "data")
    with seam(1, only="fsync", error=OSError(errno.EIO, "gone")):
        file.append(b"1")
        with pytest.raises(OSError, match="gone"):
            file.sync()
    file.close()
