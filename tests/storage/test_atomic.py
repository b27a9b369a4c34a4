"""What a crash can leave of a file is its old or its new content, never something between."""

import errno
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from crashes import seam, survives
from durability import broken_promises, unneeded_syncs

from pipeline_lib.digest import sha256_bytes
from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage import atomic, folders


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


@pytest.mark.parametrize(
    "data", [b"", b'{"a": 1', b"[" * 100_000, b"\xff\xfe", b"a", b"[NaN]", b"[-1e999]"]
)
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


def test_removing_what_is_absent_is_fine(tmp_path: Path) -> None:
    atomic.remove(tmp_path / "absent")
    folders.remove_tree(tmp_path / "absent")
    atomic.set_aside(tmp_path / "absent", tmp_path / "aside")
    assert list(tmp_path.iterdir()) == []


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


PROMISES: dict[str, Callable[[Path], object]] = {
    "a replaced file": lambda root: [atomic.save_json(root / "a.json", n) for n in range(3)],
    "a new file": lambda root: (
        atomic.write_new(root / "data", [b"ab", b"cd"]),
        folders.sync_folder(root),
        atomic.save_json(root / "a.json", ["data"]),
    ),
    "a copy": lambda root: (
        atomic.write_copy(root / "copy", b"head", root / "before.json", 1),
        folders.sync_folder(root),
        atomic.save_json(root / "a.json", ["copy"]),
    ),
    "a file set aside": lambda root: atomic.set_aside(root / "before.json", root / "aside.json"),
}


@pytest.mark.parametrize("what", PROMISES)
def test_after_a_power_cut_every_name_has_its_content_and_no_fsync_can_be_left_out(
    tmp_path: Path, what: str
) -> None:
    def root(number: int) -> Path:
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "before.json").write_bytes(b"[1]")
        return tmp_path / str(number)

    assert broken_promises(first := root(-1), lambda: PROMISES[what](first)) == []
    assert unneeded_syncs(root, PROMISES[what]) == []
