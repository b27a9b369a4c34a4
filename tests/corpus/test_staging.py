"""What stands beside an output folder decides whether a run may begin, go on, or neither."""

import errno
import os
from pathlib import Path

import pytest
from crashes import interleaved, seam
from durability import broken_promises, unneeded_syncs

from pipeline_lib.corpus import staging
from pipeline_lib.corpus.layout import (
    CHECKPOINT,
    DISCARDED,
    LOCK,
    MANIFEST,
    MISMATCH,
    staging_folder,
)
from pipeline_lib.errors import EncoderMismatch, Locked, NothingToResume, OutputExists
from pipeline_lib.storage import atomic, folders


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


def published(output: Path) -> None:
    output.mkdir()
    (output / MANIFEST).write_text("{}")


def committed(output: Path, lane: str = "") -> None:
    folder = staging_folder(output) / lane
    folder.mkdir(parents=True)
    (folder / CHECKPOINT).write_text("{}")


def test_nothing_there_means_a_fresh_run_may_begin(output: Path) -> None:
    staging.require_fresh(output)
    with pytest.raises(NothingToResume, match=r"no unfinished run for .*out; leave --resume out"):
        staging.require_unfinished(output)


def test_a_published_folder_is_never_overwritten(output: Path) -> None:
    published(output)
    assert staging.is_published(output)
    with pytest.raises(OutputExists, match="already complete and is never overwritten"):
        staging.require_fresh(output)


@pytest.mark.parametrize("what", ["empty folder", "foreign file", "file", "dangling link"])
def test_an_output_that_is_no_finished_run_is_left_alone(output: Path, what: str) -> None:
    if what == "file":
        output.write_text("mine")
    elif what == "dangling link":
        output.symlink_to(output.parent / "nowhere")
    else:
        output.mkdir()
    if what == "foreign file":
        (output / "thesis.txt").write_text("mine")
    for check in (staging.is_published, staging.require_fresh):
        with pytest.raises(OutputExists, match=r"has no metadata\.json.*left alone; move it away"):
            check(output)


@pytest.mark.parametrize("lane", ["", "lane_02"])
@pytest.mark.parametrize("resume", [False, True, "auto"])
def test_a_run_in_which_an_encoder_was_found_wrong_is_never_gone_on_with(
    output: Path, lane: str, resume: bool | str
) -> None:
    committed(output, lane)
    staging.require_fit(output, "auto")
    (staging_folder(output) / lane / MISMATCH).write_bytes(b"a text")
    with pytest.raises(
        EncoderMismatch, match=r"out\.incomplete .*encoder_mismatch\.txt.*remove that"
    ):
        staging.require_fit(output, resume)


@pytest.mark.parametrize("lane", ["", "lane_02"])
def test_an_unfinished_run_wants_to_be_resumed_or_removed(output: Path, lane: str) -> None:
    committed(output, lane)
    with pytest.raises(OutputExists, match=r"unfinished run; go on with it by --resume, or remove"):
        staging.require_fresh(output)
    staging.require_unfinished(output)


def test_a_folder_made_before_the_first_commit_may_be_used_again(output: Path) -> None:
    work = staging_folder(output)
    for _ in range(2):
        staging.make_folders(work, 3)
    (work / LOCK).write_text("1\n")
    (work / "lane_00" / "buffer_000001.bin").write_bytes(b"")
    (work / (CHECKPOINT + ".tmp")).write_bytes(b"{")
    staging.require_fresh(output)
    assert sorted(path.name for path in work.iterdir() if path.is_dir()) == [
        "lane_00", "lane_01", "lane_02", "open", "payload",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["thesis.txt", "payload/train_00000.npy"])
def test_a_folder_of_that_name_with_foreign_files_is_not_ours(output: Path, name: str) -> None:
    staging.make_folders(staging_folder(output), 1)
    (staging_folder(output) / name).write_text("mine")
    for check in (staging.require_fresh, staging.require_unfinished):
        with pytest.raises(OutputExists, match="but no checkpoint"):
            check(output)
    assert (staging_folder(output) / name).exists()


def test_only_unnamed_shards_of_one_lane_are_removed(tmp_path: Path) -> None:
    staging.make_folders(tmp_path, 2)
    names = ["train_l00_00000.npy", "train_l00_00001.npy", "val_l01_00000.npy", "notes.txt"]
    for room in ("open", "payload"):
        for name in names:
            (tmp_path / room / name).write_bytes(b"")
    staging.remove_unnamed_shards(tmp_path, 0, 2, {"train_l00_00000.npy"})
    for room in ("open", "payload"):
        left = sorted(path.name for path in (tmp_path / room).iterdir())
        assert left == sorted(set(names) - {"train_l00_00001.npy"})


@pytest.mark.parametrize("name", ["open/train_00000.npy", "buffer_000007.bin"])
def test_a_lost_checkpoint_is_not_taken_for_a_run_that_never_began(output: Path, name: str) -> None:
    staging.make_folders(staging_folder(output), 1)
    (staging_folder(output) / name).write_bytes(b"tokens")
    with pytest.raises(OutputExists, match=r"restore checkpoint\.json"):
        staging.has_commit(staging_folder(output))


def test_a_folder_that_was_being_removed_is_no_run_and_is_emptied_before_use(
    output: Path,
) -> None:
    work = staging_folder(output)
    staging.make_folders(work, 2)
    for name in ("checkpoint.json", "payload/train_00000.npy", "lock", DISCARDED):
        (work / name).write_bytes(b"{}")
    staging.require_fresh(output)
    with pytest.raises(NothingToResume):
        staging.require_unfinished(output)
    staging.make_folders(work, 1)
    found = {path.relative_to(work).as_posix() for path in work.rglob("*")}
    assert found == {"lock", "open", "payload"}


def test_what_a_desktop_leaves_does_not_make_a_folder_foreign(output: Path) -> None:
    staging.make_folders(staging_folder(output), 1)
    for name in (".DS_Store", "payload/Thumbs.db"):
        (staging_folder(output) / name).write_bytes(b"x")
    staging.require_fresh(output)


@pytest.mark.parametrize("what", ["file", "dangling link"])
def test_a_working_folder_that_is_no_folder_is_named(output: Path, what: str) -> None:
    work = staging_folder(output)
    if what == "file":
        work.write_bytes(b"mine")
    else:
        work.symlink_to(work.parent / "nowhere")
    with (
        pytest.raises(OutputExists, match=r"incomplete exists and is no folder; move it away"),
        staging.locked_staging(work),
    ):
        pass


def test_a_working_folder_that_vanishes_before_the_lock_is_made_again(output: Path) -> None:
    work = staging_folder(output)
    with interleaved([2], lambda: work.rmdir()) as names, staging.locked_staging(work):
        assert (work / LOCK).exists()
    assert names[:2] == ["mkdir", "fsync"]


def test_only_one_process_occupies_a_working_folder(output: Path) -> None:
    work = staging_folder(output)
    with staging.locked_staging(work), pytest.raises(Locked), staging.locked_staging(work):
        pass


def test_a_run_that_died_before_its_first_commit_may_begin_again(output: Path) -> None:
    staging.make_folders(staging_folder(output), 3)
    (staging_folder(output) / "lane_00" / "buffer_000001.bin").write_bytes(b"")
    assert not staging.has_commit(staging_folder(output))


def test_after_a_power_cut_a_folder_that_is_removed_holds_no_run(output: Path) -> None:
    work = staging_folder(output)

    def make(number: int) -> Path:
        committed_run(output.parent / str(number) / "out.incomplete")
        return output.parent / str(number)

    def remove(root: Path) -> None:
        staging.remove_staging(root / "out.incomplete")

    root = make(-1)
    assert broken_promises(root, lambda: remove(root)) == []
    assert unneeded_syncs(make, remove) == [1]  # of the mark, which has no content
    assert not (root / "out.incomplete").exists() and not work.exists()


def test_after_a_power_cut_the_folders_of_a_run_are_there(output: Path) -> None:
    work = staging_folder(output)

    def begin() -> None:
        staging.make_folders(work, 3)
        committed_run(work, "lane_02/")

    assert broken_promises(output.parent, begin) == []


def committed_run(work: Path, lane: str = "") -> None:
    staging.make_folders(work, 1)
    (work / lane).mkdir(exist_ok=True)
    for name in ("payload/train_00000.npy", f"{lane}buffer_000001.bin"):
        atomic.write_new(work / name, [b"tokens"])
        folders.sync_folder((work / name).parent)
    atomic.save_json(work / lane / CHECKPOINT, ["train_00000.npy", "buffer_000001.bin"])


@pytest.mark.parametrize(
    ("name", "is_folder", "fate"),
    [
        ("train_00000.npy", False, "kept"),
        (".DS_Store", False, "removed"),
        (".Trashes", True, "refused"),
        ("notes.txt", False, "refused"),
        ("notes", True, "refused"),
    ],
)
def test_of_a_payload_only_what_a_system_leaves_is_removed_and_no_folder(
    tmp_path: Path, name: str, is_folder: bool, fate: str
) -> None:
    entry = tmp_path / name
    entry.mkdir() if is_folder else entry.write_bytes(b"x")
    if fate == "refused":
        with pytest.raises(OutputExists, match=rf"{name} is in the folder to be published but no"):
            staging.clean_payload(tmp_path, {"train_00000.npy"})
    else:
        staging.clean_payload(tmp_path, {"train_00000.npy"})
    assert entry.exists() == (fate != "removed")


@pytest.mark.parametrize("code", [errno.EROFS, errno.EBUSY, errno.ENOSPC])
@pytest.mark.parametrize("call", ["fsync", "rmtree"])
def test_a_staging_folder_that_can_not_be_removed_stops_nothing(
    output: Path, caplog: pytest.LogCaptureFixture, code: int, call: str
) -> None:
    committed_run(staging_folder(output))
    with seam(1, only=call, error=OSError(code, os.strerror(code))):
        staging.remove_staging(staging_folder(output))
    assert "could not remove" in caplog.text and "nothing in it is needed" in caplog.text
    staging.remove_staging(staging_folder(output))
    assert not staging_folder(output).exists()
