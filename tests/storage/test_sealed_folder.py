"""Sealed folders are complete or absent."""

import errno
from pathlib import Path

import pytest
from crashes import seam, survives
from durability import broken_promises

from pipeline_lib import digest
from pipeline_lib.errors import DamagedFile, Locked, OutputExists
from pipeline_lib.storage import atomic, system_calls
from pipeline_lib.storage.sealed_folder import (
    SealedFile,
    building,
    check_files,
    list_files,
    publish,
)


def build(target: Path, data: bytes = b"abc", *, replace: bool = False) -> None:
    with building(target) as staging:
        payload = staging / "payload"
        (payload / "inner").mkdir()
        (payload / "inner" / "a").write_bytes(data)
        publish(payload, target, "manifest.json", list_files(payload), replace=replace)


def test_a_built_folder_has_its_files_and_its_manifest_and_leaves_nothing_beside(
    tmp_path: Path,
) -> None:
    build(tmp_path / "made")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert atomic.load_json(tmp_path / "made" / "manifest.json") == [
        {"name": "inner/a", "size": 3, "sha256": digest.sha256_bytes(b"abc")}
    ]


def test_a_folder_that_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    build(tmp_path / "made")
    with pytest.raises(OutputExists):
        build(tmp_path / "made")
    build(tmp_path / "made", replace=True)
    assert list_files(tmp_path / "made")[0].name == "inner/a"


def test_two_processes_do_not_build_one_folder(tmp_path: Path) -> None:
    with building(tmp_path / "made"), pytest.raises(Locked):
        build(tmp_path / "made")


def test_what_an_interrupted_build_left_is_swept_away(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), building(tmp_path / "made") as staging:
        (staging / "payload" / "half").write_bytes(b"x")
        (staging / "rows.arrow").write_bytes(b"x")
        raise KeyboardInterrupt
    build(tmp_path / "made")
    assert {file.name for file in list_files(tmp_path / "made")} == {"inner/a", "manifest.json"}


def test_a_build_that_died_at_any_call_leaves_the_whole_folder_or_none(tmp_path: Path) -> None:
    with seam() as whole:
        build(tmp_path / "whole")
    for at in range(1, whole.calls + 1):
        target = tmp_path / str(at)
        survives(lambda target=target: build(target), at, torn=True)
        if target.exists():
            assert list_files(target) == list_files(tmp_path / "whole")
        else:
            with seam():
                build(target)


def test_every_file_is_synced_before_the_manifest_and_that_before_the_name_appears(
    tmp_path: Path,
) -> None:
    (tmp_path / "payload" / "deep").mkdir(parents=True)
    (tmp_path / "payload" / "deep" / "data").write_bytes(b"x")
    with seam() as watched:
        publish(tmp_path / "payload", tmp_path / "target", "manifest.json", {"files": []})
    files_and_folders = ["fsync"] * 3
    manifest = ["write", "fsync", "replace", "fsync"]
    assert watched.names == [*files_and_folders, *manifest, "rename_new", "fsync"]
    assert (tmp_path / "target" / "deep" / "data").read_bytes() == b"x"


@pytest.mark.parametrize("exchange", [True, False])
def test_a_replacement_that_died_at_any_call_leaves_the_old_folder_or_the_new(
    tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(system_calls.system, "exchange", not_supported)
    with seam() as whole:
        build(tmp_path / "whole")
        build(tmp_path / "whole", b"new", replace=True)
    for at in range(1, whole.calls + 1):
        target = tmp_path / str(at)
        with seam():
            build(target, b"old")
        survives(lambda target=target: build(target, b"new", replace=True), at, torn=True)
        staging = target.with_name(target.name + ".incomplete")
        there = target if target.exists() else staging / "replaced"
        assert (there / "inner" / "a").read_bytes() in (b"old", b"new")
        with seam(), pytest.raises(KeyboardInterrupt), building(target):
            raise KeyboardInterrupt
        assert (target / "inner" / "a").read_bytes() in (b"old", b"new")


def not_supported(one: str, other: str) -> None:
    raise OSError(errno.EINVAL, "Invalid argument")


def test_files_are_checked_in_size_and_on_request_in_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    good = SealedFile("a", 3, digest.sha256_bytes(b"abc"))
    check_files(tmp_path, [good], "fetch it again", full=True)
    other = SealedFile("a", 3, digest.sha256_bytes(b"abd"))
    check_files(tmp_path, [other], "fetch it again", full=False)
    with pytest.raises(DamagedFile, match=r"a: SHA-256 is .* was recorded; fetch it again"):
        check_files(tmp_path, [other], "fetch it again", full=True)
    with pytest.raises(DamagedFile, match="a has 3 bytes, 4 were recorded; fetch it again"):
        check_files(tmp_path, [SealedFile("a", 4, "")], "fetch it again", full=False)
    with pytest.raises(DamagedFile, match="b is missing"):
        check_files(tmp_path, [SealedFile("b", 4, "")], "fetch it again", full=False)


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_after_a_power_cut_a_folder_is_complete_or_absent(
    tmp_path: Path, there: bool, exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(system_calls.system, "exchange", not_supported)
    if there:
        build(tmp_path / "made")
        with pytest.raises(KeyboardInterrupt), building(tmp_path / "made") as staging:
            (staging / "payload" / "half").write_bytes(b"x")
            raise KeyboardInterrupt
    faults = broken_promises(tmp_path, lambda: build(tmp_path / "made", b"new", replace=True))
    assert faults == []
