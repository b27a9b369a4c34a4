"""A folder appears whole and synced under a free name, or not at all."""

import errno
from pathlib import Path

import pytest
from crashes import seam

from pipeline_lib.durable import folders
from pipeline_lib.errors import OutputExists, PipelineError


def test_folders_are_made_with_their_ancestors_and_may_exist(tmp_path: Path) -> None:
    for _ in range(2):
        folders.make_folder(tmp_path / "a" / "b")
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
        folders.publish_folder(tmp_path / "staging", target)
    assert (tmp_path / "staging").exists()


def test_publishing_syncs_every_file_before_the_name_appears(tmp_path: Path) -> None:
    (tmp_path / "staging" / "deep").mkdir(parents=True)
    (tmp_path / "staging" / "deep" / "data").write_bytes(b"x")
    with seam() as watched:
        folders.publish_folder(tmp_path / "staging", tmp_path / "target")
    assert watched.names == ["fsync", "fsync", "fsync", "rename_new", "fsync"]
    assert (tmp_path / "target" / "deep" / "data").read_bytes() == b"x"


def test_another_file_system_is_named_as_the_reason(tmp_path: Path) -> None:
    (tmp_path / "staging").mkdir()
    failure = OSError(errno.EXDEV, "cross-device")
    with seam(1, only="rename_new", error=failure), pytest.raises(PipelineError, match="file syst"):
        folders.publish_folder(tmp_path / "staging", tmp_path / "target")
