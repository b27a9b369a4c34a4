"""One source's folder: what is counted, committed, resumed and refused."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_world import (
    CHATS,
    as_it_is,
    contents,
    normalized,
    numbered_chat,
    stored_conversations,
    turns,
)
from crashes import seam, survives
from durability import broken_promises

from pipeline_lib.chat import rows, store_writer
from pipeline_lib.chat.conversation import Reject
from pipeline_lib.chat.normalize import normalize
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
    report = normalized(tmp_path, CHATS, some_raise).reports["one"]
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
            normalized(tmp_path / "all", CHATS, raising)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store_writer, "PART_ROWS", 5)
    for module in (store_writer, rows):
        monkeypatch.setattr(module, "READ_ROWS", 4)
    yield


def test_a_run_that_crashed_at_any_call_and_again_ends_with_the_same_bytes(
    tmp_path: Path, small_parts: None
) -> None:
    with seam() as whole:
        expected = normalized(tmp_path / "whole", CHATS)
    assert len(expected.train.sources[0].parts) > 3
    for at in range(1, whole.calls + 1):
        root = tmp_path / str(at)
        assert not survives(lambda root=root: normalized(root, CHATS), at, torn=True)
        survives(lambda root=root: normalized(root, CHATS), at * 7 % 11 + 1)
        with seam():
            done = normalized(root, CHATS)
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
        normalize({"one": CHATS}, {"one": as_it_is}, cache_options, seed=7, val_fraction=0.25)
    normalized(tmp_path, CHATS)
    assert "one: resuming at row 16" in caplog.text


def test_a_part_that_was_cut_or_changed_is_named_with_the_way_out(tmp_path: Path) -> None:
    done = normalized(tmp_path, CHATS)
    part = done.train.sources[0].parts[0].path
    data = bytearray(part.read_bytes())
    data[-300] ^= 1
    part.write_bytes(data)
    cache_options = CacheOptions(tmp_path, verify="full")
    with pytest.raises(CacheError, match=r"train-00000.arrow was changed.*rmtree"):
        normalize({"one": CHATS}, {"one": as_it_is}, cache_options, seed=7, val_fraction=0.25)
    part.write_bytes(data[:-1])
    with pytest.raises(CacheError, match=r"train-00000.arrow has.*rmtree"):
        normalized(tmp_path, CHATS)
    part.unlink()
    with pytest.raises(CacheError, match="is missing"):
        normalized(tmp_path, CHATS)


def test_two_processes_do_not_fill_one_folder(tmp_path: Path) -> None:
    folder = normalized(tmp_path, CHATS).folders[0]
    (folder / "meta.json").unlink()
    with FolderLock(folder / "lock"), pytest.raises(Locked):
        normalized(tmp_path, CHATS)


def test_reasons_without_end_are_counted_together_from_a_bound_on(tmp_path: Path) -> None:
    results = [numbered_chat(1), *(Reject(f"reason {i}") for i in range(300))]
    rejects = stored_conversations(tmp_path, {"one": results}).reports["one"].rejects
    assert len(rejects) == 201
    assert rejects["other reasons"] == 100


def test_after_a_power_cut_every_commit_has_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_writer, "PART_ROWS", 5)
    for module in (store_writer, rows):
        monkeypatch.setattr(module, "READ_ROWS", 4)
    assert broken_promises(tmp_path, lambda: normalized(tmp_path, CHATS)) == []
    assert len(list(tmp_path.glob("*/train-*.arrow"))) > 3
