"""One source's folder: what is counted, committed, resumed and refused."""

import contextlib
import errno
import itertools
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from chat_world import (
    MIXED_CHATS,
    as_it_is,
    contents,
    normalized,
    numbered_chat,
    stored_conversations,
    turns,
)
from crashes import Killed, Seam, flip, seam, survives, ticking
from durability import broken_promises

from pipeline_lib.chat import rows, store_progress, store_writer
from pipeline_lib.chat.conversation import Reject
from pipeline_lib.chat.normalize import Normalized, normalize
from pipeline_lib.chat.turns import dialogue, tidy
from pipeline_lib.errors import CacheError, Locked, SourceError
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.lock import FolderLock


def raising(row: dict[str, Any]) -> Any:
    return row["no such column"]


def some_raise(row: dict[str, Any]) -> Any:
    if row["result"][0]["content"].endswith(" 3 0"):
        raise KeyError("odd row")
    return row["result"]


def test_rejections_and_changes_are_counted_by_reason(tmp_path: Path) -> None:
    results = [numbered_chat(1), Reject("language"), None, dialogue(["q", "a", "q"]), turns("q")]
    results[3] = tidy(results[3])
    report = stored_conversations(tmp_path, {"one": results}).reports["one"]
    assert (report.rows, report.train, report.rejected) == (5, 2, 3)
    assert report.rejects == {"language": 1, "unspecified": 1, "no assistant turn": 1}
    assert report.notes == {"dropped a trailing user turn": 1}


def test_a_row_whose_normalizer_raises_is_one_rejection_with_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = normalized(tmp_path, MIXED_CHATS, some_raise).reports["one"]
    assert report.rejects == {"raised KeyError": 1}
    assert "odd row" in report.first_traceback
    assert not caplog.records


def test_many_rejections_warn_and_all_of_them_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored_conversations(tmp_path / "some", {"one": [numbered_chat(1), Reject("tie")]})
    assert "1 of 2 rows rejected (tie: 1)" in caplog.text
    for _ in range(2):  # a second run finds the same
        with pytest.raises(SourceError, match=r"(?s)40 of 40 rows.*no such column"):
            normalized(tmp_path / "all", MIXED_CHATS, raising)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store_progress, "PART_ROWS", 5)
    for module in (store_writer, rows):
        monkeypatch.setattr(module, "READ_ROWS", 4)
    yield


def test_a_run_that_crashed_at_any_call_and_again_ends_with_the_same_bytes(
    tmp_path: Path, small_parts: None
) -> None:
    with seam(watch=tmp_path) as whole:
        expected = normalized(tmp_path / "whole", MIXED_CHATS)
    assert len(expected.train.sources[0].parts) > 3
    for at in whole.places()[::4]:
        root = tmp_path / str(at)
        assert not survives(lambda root=root: normalized(root, MIXED_CHATS), at, torn=True)
        survives(lambda root=root: normalized(root, MIXED_CHATS), at * 7 % 11 + 1)
        with seam():
            done = normalized(root, MIXED_CHATS)
        assert list(done.train) == list(expected.train)
        assert contents(root) == contents(tmp_path / "whole")


def test_a_run_goes_on_behind_its_last_part(
    tmp_path: Path, small_parts: None, caplog: pytest.LogCaptureFixture
) -> None:
    def stop_at_20(name: str, done: int, total: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    caplog.set_level(logging.INFO)
    cache_options = CacheOptions(tmp_path, on_progress=stop_at_20)
    with pytest.raises(KeyboardInterrupt):
        normalize({"one": MIXED_CHATS}, {"one": as_it_is}, cache_options, seed=7, val_fraction=0.25)
    normalized(tmp_path, MIXED_CHATS)
    assert "one: resuming at row 20" in caplog.text


def stopping(at: int, error: type[BaseException] = KeyboardInterrupt) -> Callable[[], float]:
    """A clock that stands, and raises when it is asked for the ``at``-th time, once a row."""
    asked = itertools.count(1)

    def clock() -> float:
        if next(asked) == at:
            raise error
        return 0.0

    return clock


def run(root: Path, **options: Any) -> Normalized:
    cache = CacheOptions(root, **options)
    return normalize({"one": MIXED_CHATS}, {"one": as_it_is}, cache, seed=7, val_fraction=0.25)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError])
def test_a_run_that_stopped_at_any_row_goes_on_there_and_ends_with_the_same_bytes(
    tmp_path: Path,
    small_parts: None,
    caplog: pytest.LogCaptureFixture,
    error: type[BaseException],
) -> None:
    caplog.set_level(logging.INFO)
    run(tmp_path / "whole")
    for row in range(1, 38, 4 if error is KeyboardInterrupt else 9):
        root = tmp_path / str(row)
        with seam(), pytest.raises(error):
            run(root, clock=stopping(row + 1, error))
        with seam(), pytest.raises(error):
            run(root, clock=stopping(3, error))
        with seam():
            done = run(root)
        assert f"one: resuming at row {row}\n" in caplog.text
        assert contents(root) == contents(tmp_path / "whole")
        assert len(done.train) + len(done.val) == 40


def interrupted_at(line: int, work: Callable[[], object]) -> int:
    """Do the work with a ``KeyboardInterrupt`` at a line of the writing modules; lines that ran."""
    ran = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal ran
        if not frame.f_code.co_filename.endswith(("writer.py", "progress.py", "growing_folder.py")):
            return None
        ran += event == "line"
        if ran == line and event == "line":
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            work()
    finally:
        sys.settrace(before)
    return ran


def test_an_interrupt_between_any_two_lines_loses_and_doubles_nothing(
    tmp_path: Path, small_parts: None
) -> None:
    def often(root: Path) -> Normalized:
        return run(root, clock=ticking(), save_every_seconds=9)

    lines = interrupted_at(-1, lambda: often(tmp_path / "whole"))
    whole = contents(tmp_path / "whole")
    for line in range(1, lines, lines // 20):
        root = tmp_path / str(line)
        with seam():
            interrupted_at(line, lambda root=root: often(root))  # type: ignore[misc]
            often(root)
        assert contents(root) == whole, line


def test_a_run_that_commits_by_the_clock_and_crashed_at_any_call_ends_with_the_same_bytes(
    tmp_path: Path, small_parts: None
) -> None:
    run(tmp_path / "undisturbed")

    def often(root: Path) -> Normalized:
        return run(root, clock=ticking(), save_every_seconds=3)

    with seam(watch=tmp_path) as whole:
        often(tmp_path / "whole")
    assert contents(tmp_path / "whole") == contents(tmp_path / "undisturbed")
    for at in whole.places()[::9]:
        root = tmp_path / str(at)
        assert not survives(lambda root=root: often(root), at, torn=True)
        survives(lambda root=root: often(root), at * 7 % 11 + 1)
        with seam():
            often(root)
        assert contents(root) == contents(tmp_path / "undisturbed")


def test_an_interrupt_in_any_call_and_a_crash_after_it_end_with_the_same_bytes(
    tmp_path: Path, small_parts: None
) -> None:
    with seam() as whole:
        run(tmp_path / "whole")
    for at in range(3, whole.calls + 1, 5):
        root = tmp_path / str(at)
        with seam(at, error=KeyboardInterrupt()), contextlib.suppress(KeyboardInterrupt):
            run(root)
        check_that_each_file_is_of_a_part(root)
        survives(lambda root=root: run(root), 1 + at % 3, torn=True, only="write")
        with seam():
            run(root)
        assert contents(root) == contents(tmp_path / "whole")


def check_that_each_file_is_of_a_part(root: Path) -> None:
    """The record names the files of its parts and of the open one, and no other."""
    for path in root.glob("*/meta.json"):
        record = json.loads(path.read_bytes())
        parts = [*record["details"]["parts"], record["details"]["tail"]]
        named = {part["file"] for splits in parts for part in splits.values()}
        assert set(record["files"]) == named


def test_after_a_failed_fsync_nothing_more_is_committed(tmp_path: Path, small_parts: None) -> None:
    with seam(only="fsync") as whole:
        run(tmp_path / "whole")
    for at in range(4, whole.calls + 1, 6):
        root, error = tmp_path / str(at), OSError(errno.EIO, "lost")
        with seam(at, error=error, only="fsync") as watched, pytest.raises(OSError, match="lost"):
            run(root)
        assert watched.calls == at
        with seam():
            run(root)
        assert contents(root) == contents(tmp_path / "whole")


def test_a_killed_run_does_the_rows_of_one_interval_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for row in range(7, 40, 8):
        root, seconds = tmp_path / str(row), itertools.count()
        with seam() as watched, pytest.raises(Killed):

            def clock(watched: Seam = watched, seconds: Any = seconds, row: int = row) -> float:
                watched.dead = (now := next(seconds)) == row
                if watched.dead:
                    raise Killed
                return float(now)

            run(root, clock=clock, save_every_seconds=6)
        caplog.clear()
        run(root)
        (resumed,) = re.findall(r"resuming at row (\d+)", caplog.text)
        commits = row // 7  # each asks the clock once more
        assert row - 8 - commits <= int(resumed) < row


def test_an_open_part_that_was_changed_is_named_with_the_way_out(
    tmp_path: Path, small_parts: None
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, clock=stopping(3))
    (tail,) = tmp_path.glob("*/*-tail-*.arrow")
    flip(tail, -300)
    with pytest.raises(CacheError, match=r"tail-\d+.arrow was changed.*rmtree"):
        run(tmp_path)


def test_a_part_that_was_cut_or_changed_is_named_with_the_way_out(tmp_path: Path) -> None:
    done = normalized(tmp_path, MIXED_CHATS)
    part = done.train.sources[0].parts[0].path
    data = bytearray(part.read_bytes())
    data[-300] ^= 1
    part.write_bytes(data)
    cache_options = CacheOptions(tmp_path, verify="full")
    with pytest.raises(CacheError, match=r"train-00000.arrow was changed.*rmtree"):
        normalize({"one": MIXED_CHATS}, {"one": as_it_is}, cache_options, seed=7, val_fraction=0.25)
    part.write_bytes(data[:-1])
    with pytest.raises(CacheError, match=r"train-00000.arrow has.*rmtree"):
        normalized(tmp_path, MIXED_CHATS)
    part.unlink()
    with pytest.raises(CacheError, match="is missing"):
        normalized(tmp_path, MIXED_CHATS)


def test_two_processes_do_not_fill_one_folder(tmp_path: Path) -> None:
    folder = normalized(tmp_path, MIXED_CHATS).folders[0]
    (folder / "meta.json").unlink()
    with FolderLock(folder / "lock"), pytest.raises(Locked):
        normalized(tmp_path, MIXED_CHATS)


def test_reasons_without_end_are_counted_together_from_a_bound_on(tmp_path: Path) -> None:
    results = [numbered_chat(1), *(Reject(f"reason {i}") for i in range(300))]
    rejects = stored_conversations(tmp_path, {"one": results}).reports["one"].rejects
    assert len(rejects) == 201
    assert rejects["other reasons"] == 100


def test_after_a_power_cut_every_commit_has_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_progress, "PART_ROWS", 5)
    for module in (store_writer, rows):
        monkeypatch.setattr(module, "READ_ROWS", 4)
    assert broken_promises(tmp_path, lambda: normalized(tmp_path, MIXED_CHATS)) == []
    assert len(list(tmp_path.glob("*/train-*.arrow"))) > 3
