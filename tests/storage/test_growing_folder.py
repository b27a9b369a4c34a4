"""The one commit rule of keyed folders: what counts, what is durable, what is cut off."""

from collections.abc import Callable
from pathlib import Path

import pytest
from crashes import seam, survives
from durability import broken_promises, unneeded_syncs
from keyed_folders import KEY

from pipeline_lib.errors import CacheError, Locked
from pipeline_lib.storage.growing_folder import GrowingFolder
from pipeline_lib.storage.keyed_folder import META, KeyedFolder, Record


def keyed_folder(root: Path) -> KeyedFolder:
    return KeyedFolder(root, "test", KEY)


def growing_folder(root: Path) -> GrowingFolder[int]:
    return GrowingFolder(keyed_folder(root), int, 0)


def committed_record(root: Path) -> Record[int]:
    record = keyed_folder(root).load(int)
    assert record is not None
    return record


def test_what_was_advanced_and_committed_is_there_and_the_rest_is_not(tmp_path: Path) -> None:
    with growing_folder(tmp_path) as writer:
        writer.append("a", b"one")
        writer.write("b", b"whole")
        writer.advance(1, 10)
        writer.append("a", b" and half of two")
        writer.commit(complete=False)
    record = committed_record(tmp_path)
    assert (record.done, record.details, record.complete) == (1, 10, False)
    assert {name: file.size for name, file in record.files.items()} == {"a": 3, "b": 5}


def test_a_folder_that_is_opened_again_goes_on_behind_its_commit(tmp_path: Path) -> None:
    with growing_folder(tmp_path) as writer:
        writer.append("a", b"one")
        writer.advance(1, 10)
        writer.commit(complete=False)
        writer.append("a", b" lost")
    with growing_folder(tmp_path) as writer:
        assert (writer.done, writer.details) == (1, 10)
        writer.append("a", b" two")
        writer.advance(2, 20)
        assert writer.commit(complete=True) == writer.record
    assert (keyed_folder(tmp_path).path / "a").read_bytes() == b"one two"
    assert (committed_record(tmp_path).done, committed_record(tmp_path).complete) == (2, True)


def test_an_empty_folder_can_be_committed(tmp_path: Path) -> None:
    with growing_folder(tmp_path) as writer:
        writer.commit(complete=True)
    assert (
        committed_record(tmp_path).done,
        committed_record(tmp_path).details,
        committed_record(tmp_path).files,
    ) == (*(0, 0, {}),)


def test_starting_over_forgets_what_was_committed(tmp_path: Path) -> None:
    with growing_folder(tmp_path) as writer:
        writer.write("part", b"old")
        writer.advance(3, 30)
        writer.commit(complete=True)
    with growing_folder(tmp_path) as writer:
        writer.start_over()
        assert (writer.done, writer.details, writer.record) == (0, 0, None)
        assert not (keyed_folder(tmp_path).path / META).exists()
        assert not (keyed_folder(tmp_path).path / "part").exists()
        writer.write("part", b"new")
        writer.advance(1, 10)
        writer.commit(complete=True)
    assert (committed_record(tmp_path).done, committed_record(tmp_path).files["part"].size) == (
        1,
        3,
    )


def test_only_one_process_writes(tmp_path: Path) -> None:
    with growing_folder(tmp_path), pytest.raises(Locked), growing_folder(tmp_path):
        pass
    with growing_folder(tmp_path):  # the lock is free again
        pass


@pytest.mark.parametrize("damage", [b"", b"on", b"onX"])
def test_a_committed_file_that_was_cut_or_changed_is_not_added_to(
    tmp_path: Path, damage: bytes
) -> None:
    with growing_folder(tmp_path) as writer:
        writer.append("a", b"one")
        writer.advance(1, 1)
        writer.commit(complete=False)
    (keyed_folder(tmp_path).path / "a").write_bytes(damage)
    with pytest.raises(CacheError, match=r"shutil.rmtree"), growing_folder(tmp_path) as writer:
        writer.append("a", b"more")
    assert (keyed_folder(tmp_path).path / "a").read_bytes() == damage


def names(root: Path) -> set[str]:
    return {path.name for path in keyed_folder(root).path.iterdir()} - {META, "lock"}


def test_a_dropped_file_is_there_until_the_commit_after_it_and_then_gone(tmp_path: Path) -> None:
    with growing_folder(tmp_path) as writer:
        writer.write("tail-1", b"one")
        writer.advance(1, 1)
        writer.commit(complete=False)
        assert writer.checked("tail-1").read_bytes() == b"one"
        writer.write("part", b"one two")
        writer.advance(2, 2, drop=["tail-1"])
        assert names(tmp_path) == {"tail-1", "part"}
        writer.commit(complete=False)
        assert names(tmp_path) == {"part"}
    assert {*committed_record(tmp_path).files} == {"part"}


def test_what_no_record_names_is_removed_when_the_folder_is_opened(tmp_path: Path) -> None:
    with growing_folder(tmp_path) as writer:
        writer.write("part", b"one")
        writer.advance(1, 1)
        writer.commit(complete=False)
        writer.write("lost", b"two")
        writer.write("forgotten", b"two")
        writer.discard()
    with growing_folder(tmp_path) as writer:
        assert names(tmp_path) == {"part"}
        writer.advance(2, 2)
        writer.commit(complete=True)
    assert {*committed_record(tmp_path).files} == {"part"}


def test_a_file_that_is_named_to_be_kept_stays_without_a_record(tmp_path: Path) -> None:
    for _ in range(2):
        with GrowingFolder(keyed_folder(tmp_path), int, 0, keep=("mark",)):
            (keyed_folder(tmp_path).path / "mark").write_bytes(b"said")
            (keyed_folder(tmp_path).path / "other").write_bytes(b"lost")
    with GrowingFolder(keyed_folder(tmp_path), int, 0, keep=("mark",)):
        assert names(tmp_path) == {"mark"}


def test_an_equal_commit_writes_nothing(tmp_path: Path) -> None:
    with growing_folder(tmp_path) as writer:
        writer.write("part", b"one")
        writer.advance(1, 1)
        writer.commit(complete=False)
        with seam() as watched:
            writer.commit(complete=False)
        assert "replace" not in watched.names
        writer.commit(complete=True)
    assert committed_record(tmp_path).complete


def test_a_folder_that_is_complete_never_holds_a_dropped_file(tmp_path: Path) -> None:
    def work(root: Path) -> None:
        with growing_folder(root) as writer:
            if not writer.done:
                writer.write("tail", b"one")
                writer.advance(1, 1)
                writer.commit(complete=False)
            writer.write("part", b"one")
            writer.advance(1, 2, drop=["tail"])
            writer.commit(complete=True)

    with seam() as whole:
        work(tmp_path / "whole")
    for at in range(1, whole.calls + 1):
        assert not survives(lambda at=at: work(tmp_path / str(at)), at)  # type: ignore[misc]
        record = keyed_folder(tmp_path / str(at)).load(int)
        if record is not None and record.complete:
            assert names(tmp_path / str(at)) == {"part"}


def write_six_parts(root: Path) -> None:
    with growing_folder(root) as writer:
        for number in range(writer.done, 6):
            writer.append("a", b"%d" % number * (number + 1))
            writer.write(f"part-{number}", b"%d" % number)
            writer.advance(number + 1, number)
            if number % 2:
                writer.commit(complete=number == 5)


def test_a_writer_that_died_at_any_call_and_again_ends_with_the_same_bytes(
    tmp_path: Path,
) -> None:
    def writing(root: Path) -> Callable[[], None]:
        return lambda: write_six_parts(root)

    with seam() as whole:
        write_six_parts(tmp_path / "whole")
    expected = {p.name: p.read_bytes() for p in keyed_folder(tmp_path / "whole").path.iterdir()}
    for at in range(1, whole.calls + 1):
        root = tmp_path / str(at)
        assert not survives(writing(root), at, torn=True)
        survives(writing(root), at % 7 + 1)
        with seam():
            write_six_parts(root)
        found = {p.name: p.read_bytes() for p in keyed_folder(root).path.iterdir()}
        assert found | {"lock": b""} == expected | {"lock": b""}


def write_twice(root: Path) -> None:
    write_six_parts(root)
    with growing_folder(root) as writer:
        writer.start_over()
    write_six_parts(root)


@pytest.mark.parametrize("write", [write_six_parts, write_twice])
def test_after_a_power_cut_every_commit_has_its_files_and_no_fsync_can_be_left_out(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    def root(number: int) -> Path:
        (tmp_path / str(number)).mkdir()
        return tmp_path / str(number)

    assert broken_promises(first := root(-1), lambda: write(first)) == []
    assert unneeded_syncs(root, write) == []
