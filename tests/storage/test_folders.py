"""A folder appears whole and synced under a free name, or not at all."""

import errno
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from crashes import seam
from durability import broken_promises, unneeded_syncs

from pipeline_lib.errors import OutputExists, PipelineError
from pipeline_lib.storage import atomic, folders, system_calls


def test_folders_are_made_with_their_ancestors_and_may_exist(tmp_path: Path) -> None:
    for _ in range(2):
        folders.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("taken", ["empty folder", "full folder", "file"])
def test_a_new_name_never_replaces_what_is_there(tmp_path: Path, taken: str) -> None:
    target = tmp_path / "target"
    if taken == "file":
        target.write_bytes(b"mine")
    else:
        target.mkdir()
    if taken == "full folder":
        (target / "foreign").write_bytes(b"mine")
    (tmp_path / "staging").mkdir()
    with pytest.raises(OutputExists, match=r"target already exists and is never replaced"):
        folders.rename_new(tmp_path / "staging", target)
    assert (tmp_path / "staging").exists()


@pytest.mark.parametrize("what", ["file", "dangling link", "link to a file"])
def test_a_name_that_is_taken_by_no_folder_is_told(tmp_path: Path, what: str) -> None:
    (tmp_path / "data").write_bytes(b"x")
    if what != "file":
        (tmp_path / "taken").symlink_to(tmp_path / ("data" if "file" in what else "nowhere"))
    name = "data" if what == "file" else "taken"
    with pytest.raises(OutputExists, match=f"{name} exists and is no folder; move it away"):
        folders.make_folder(tmp_path / name / "more")


def test_removing_takes_folders_files_and_links_but_not_what_a_link_leads_to(
    tmp_path: Path,
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "data").write_bytes(b"x")
    for name in ("folder/deep", "folder/deep/er"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "kept")
    for name in ("folder", "file", "link", "absent"):
        folders.remove_tree(tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["kept", "data"]


def test_two_may_remove_the_same_folder(tmp_path: Path) -> None:
    for name in ("data", "more"):
        (tmp_path / "a" / name).mkdir(parents=True)
    real, calls = system_calls.system.rmtree, itertools.count()

    def vanishing(path: Path) -> None:
        if next(calls) == 0:
            (tmp_path / "a" / "data").rmdir()
            raise FileNotFoundError(path)
        real(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system_calls.system, "rmtree", vanishing)
        folders.remove_tree(tmp_path / "a")
    assert next(calls) == 2 and not (tmp_path / "a").exists()


def test_another_file_system_is_named_as_the_reason(tmp_path: Path) -> None:
    (tmp_path / "staging").mkdir()
    failure = OSError(errno.EXDEV, "cross-device")
    with seam(1, only="rename_new", error=failure), pytest.raises(PipelineError, match="file syst"):
        folders.rename_new(tmp_path / "staging", tmp_path / "target")


def exchange(root: Path) -> None:
    folders.replace_folder(root / "staging" / "new", root / "old", root / "staging" / "aside")


MOVES: dict[str, Callable[[Path], object]] = {
    "made": lambda root: (
        folders.make_folder(root / "a" / "b" / "c"),
        atomic.save_json(root / "a" / "b" / "c" / "record.json", []),
    ),
    "renamed": lambda root: folders.rename_new(root / "old", root / "other"),
    "moved": lambda root: folders.rename_new(root / "staging" / "new", root / "other"),
    "replaced": exchange,
}


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("what", MOVES)
def test_after_a_power_cut_a_folder_has_its_new_name_and_no_fsync_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, exchanges: bool
) -> None:
    if not exchanges:
        monkeypatch.setattr(system_calls.system, "exchange", refuse)

    def root(number: int) -> Path:
        for name in ("staging/new", "old"):
            (tmp_path / str(number) / name).mkdir(parents=True)
            (tmp_path / str(number) / name / "record.json").write_text(name)
        return tmp_path / str(number)

    assert broken_promises(first := root(-1), lambda: MOVES[what](first)) == []
    assert unneeded_syncs(root, MOVES[what]) == []


def refuse(one: str, other: str) -> None:
    raise OSError(errno.EINVAL, "Invalid argument")


def test_a_synced_tree_is_durable_and_no_fsync_of_it_can_be_left_out(tmp_path: Path) -> None:
    def publish(root: Path) -> None:
        (root / "made" / "inner").mkdir(parents=True)
        for name in ("data", "inner/data"):
            (root / "made" / name).write_bytes(b"x")
        folders.sync_tree(root / "made")
        folders.rename_new(root / "made", root / "done")

    def root(number: int) -> Path:
        (tmp_path / str(number)).mkdir()
        return tmp_path / str(number)

    assert broken_promises(first := root(-1), lambda: publish(first)) == []
    assert unneeded_syncs(root, publish) == []


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_replaced_folder_is_the_new_one_and_the_old_one_is_kept_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    if not exchanges:
        monkeypatch.setattr(system_calls.system, "exchange", refuse)
    for name in ("staging/new", "old"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "record.json").write_text(name)
    exchange(tmp_path)
    found = {path.read_text(): path.parent for path in tmp_path.rglob("record.json")}
    assert found["staging/new"] == tmp_path / "old"
    assert found["old"].parent == tmp_path / "staging" and len(found) == 2
