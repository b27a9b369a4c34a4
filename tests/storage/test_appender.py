"""A growing file keeps what was committed and nothing else."""

import errno
import json
from pathlib import Path

import pytest
from crashes import seam

from pipeline_lib.digest import sha256_bytes
from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage import appender
from pipeline_lib.storage.appender import Appender


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


def test_much_appended_data_begins_to_be_synced_before_a_commit_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appender, "EARLY_SYNC", 10)
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
    monkeypatch.setattr(appender, "EARLY_SYNC", 1)
    file = Appender(tmp_path / "data")
    with seam(1, only="fsync", error=OSError(errno.EIO, "gone")):
        file.append(b"1")
        with pytest.raises(OSError, match="gone"):
            file.sync()
    file.close()
