"""The normalising stage: what is kept, where it goes, when it is done again, and after a crash."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_world import Crash, as_it_is, chat_of, contents, failing_disk, rows_of, stored, turns

from pipeline_lib import sourcerows, sourcestore
from pipeline_lib.chat import Pair, Reject
from pipeline_lib.conversations import CacheSite, Normalized, Normalizer, Rows, normalize
from pipeline_lib.errors import DamagedFile, Locked, SourceError
from pipeline_lib.lock import FolderLock
from pipeline_lib.registry import Source
from pipeline_lib.selection import split_for
from pipeline_lib.turns import dialogue, tidy

CHATS = rows_of([{"result": chat_of(i)} for i in range(40)])
TREE = rows_of(
    [
        {
            "message_id": i,
            "parent_id": p,
            "rank": r,
            "deleted": False,
            "review_result": True,
            "role": "user" if p is None else "assistant",
            "text": text,
        }
        for i, p, r, text in [(1, None, None, "q"), (2, 1, 1, "worse"), (3, 1, 0, "better")]
    ],
    tree=True,
)


def run(root: Path, rows: Rows, normalizer: Normalizer = as_it_is, **options: Any) -> Normalized:
    options = {"seed": 7, "val_fraction": 0.25} | options
    return normalize({"one": rows}, {"one": normalizer}, CacheSite(root), **options)


def raising(row: dict[str, Any]) -> Any:
    return row["no such column"]


def some_raise(row: dict[str, Any]) -> Any:
    if row["result"][0]["content"].endswith(" 3 0"):
        raise KeyError("odd row")
    return row["result"]


def of_a_path(row: dict[str, Any]) -> Any:
    return [{"role": m["role"], "content": m["text"]} for m in row["messages"]]


def strip_less(row: dict[str, Any]) -> Any:
    # the same output as as_it_is, by other code
    return list(row["result"])


def shouted(row: dict[str, Any]) -> Any:
    return [turn | {"content": turn["content"].upper()} for turn in row["result"]]


def test_every_conversation_comes_out_once_in_the_order_of_the_rows(tmp_path: Path) -> None:
    done = run(tmp_path, CHATS)
    kept = [*done.train, *done.val]
    assert sorted(map(str, kept)) == sorted(str(chat_of(i)) for i in range(40))
    assert list(done.train) == [c for i in range(40) if (c := chat_of(i)) in list(done.train)]


def test_the_split_follows_the_first_user_turn(tmp_path: Path) -> None:
    done = run(tmp_path, CHATS)
    for split, conversations in (("train", done.train), ("val", done.val)):
        assert len(conversations) > 0
        assert {split_for(c[0]["content"], 7, 0.25) for c in conversations} == {split}


def test_a_pair_and_its_conversation_and_a_document_by_its_text_are_split(tmp_path: Path) -> None:
    for number in range(6):
        question, text = f"question {number}", f"text {number}"
        pair = Pair(turns(question), turns("a", first="assistant"), turns("b", first="assistant"))
        results = [pair, turns(question, "c"), turns(text, first="assistant")]
        done = stored(tmp_path / str(number), {"one": results}, val_fraction=0.5)
        sides = {
            split: [c[0]["content"] for c in getattr(done, split)] for split in ("train", "val")
        }
        assert sides[split_for(question, 7, 0.5)].count(question) == 2
        assert text in sides[split_for(text, 7, 0.5)]


def test_items_slices_negative_places_and_sources_are_those_of_a_sequence(tmp_path: Path) -> None:
    train = stored(tmp_path, {"a": [chat_of(1), chat_of(2)], "none": [], "b": [chat_of(3)]}).train
    assert len(train) == 3
    assert train[-1] == chat_of(3) == train[2]
    assert train[:2] == [chat_of(1), chat_of(2)]
    assert [train.source_of(i) for i in range(-1, 3)] == ["b", "a", "a", "b"]
    assert train.counts == {"a": 2, "none": 0, "b": 1}
    for outside in (3, -4):
        with pytest.raises(IndexError, match="of 3"):
            train[outside]


def test_a_pair_is_read_back_whole_and_a_plain_conversation_has_none(tmp_path: Path) -> None:
    pair = Pair(turns("q"), turns("ä", first="assistant"), turns("b", first="assistant"))
    train = stored(tmp_path, {"one": [chat_of(1), pair]}).train
    assert train.pair(0) is None
    assert train.pair(1) == pair
    assert train[1] == turns("q", "ä")


def test_characters_are_counted_not_bytes(tmp_path: Path) -> None:
    train = stored(tmp_path, {"one": [turns("é", "漢字")]}).train
    assert train.characters().tolist() == [3]


def test_rejections_and_changes_are_counted_by_reason(tmp_path: Path) -> None:
    results = [chat_of(1), Reject("language"), None, dialogue(["q", "a", "q"]), turns("q")]
    results[3] = tidy(results[3])
    report = stored(tmp_path, {"one": results}).reports["one"]
    assert (report.rows, report.train, report.rejected) == (5, 2, 3)
    assert report.rejects == {"language": 1, "unspecified": 1, "no assistant turn": 1}
    assert report.notes == {"dropped a trailing user turn": 1}


def test_the_tables_show_each_source_and_each_reason(tmp_path: Path) -> None:
    done = stored(tmp_path, {"one": [chat_of(1), Reject("tie")], "two": [chat_of(2)]})
    assert done.table.rows == (("one", 2, 1, 0, 1, "tie"), ("two", 1, 1, 0, 0, ""))
    assert done.reasons.rows == (("one", "rejected", "tie", 1),)


def test_a_row_whose_normalizer_raises_is_one_rejection_with_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = run(tmp_path, CHATS, some_raise).reports["one"]
    assert report.rejects == {"raised KeyError": 1}
    assert "odd row" in report.first_traceback
    assert not caplog.records


def test_many_rejections_warn_and_all_of_them_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored(tmp_path / "some", {"one": [chat_of(1), Reject("tie")]})
    assert "1 of 2 rows rejected (tie: 1)" in caplog.text
    for _ in range(2):  # a second run finds the same
        with pytest.raises(SourceError, match=r"(?s)40 of 40 rows.*no such column"):
            run(tmp_path / "all", CHATS, raising)


def test_a_source_without_rows_is_listed_with_none(tmp_path: Path) -> None:
    done = stored(tmp_path, {"none": [], "one": [chat_of(1)]})
    assert done.table.rows[0] == ("none", 0, 0, 0, 0, "")


def test_a_row_of_a_tree_source_is_its_best_path(tmp_path: Path) -> None:
    done = run(tmp_path, TREE, of_a_path, val_fraction=1e-9)
    assert list(done.train) == [turns("q", "better")]
    assert done.reports["one"].messages["beside the best path"] == 1


def test_a_limit_is_a_seeded_sample_that_grows(tmp_path: Path) -> None:
    few, more = (run(tmp_path, CHATS, limit=n, val_fraction=1e-9) for n in (5, 12))
    assert len(few.train) == 5
    assert len(more.train) == 12
    kept = [str(c) for c in more.train]
    assert all(str(c) in kept for c in few.train)
    assert list(few.train) != [chat_of(i) for i in range(5)]


def test_a_source_without_a_normalizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no normalizer for one"):
        normalize({"one": CHATS}, {}, CacheSite(tmp_path), seed=1)


def test_an_equal_run_reads_nothing_again(tmp_path: Path) -> None:
    first = run(tmp_path, CHATS)
    before = contents(tmp_path)
    gone = Rows(None, CHATS.fingerprint)  # type: ignore[arg-type]
    again = run(tmp_path, gone)
    assert list(again.train) == list(first.train)
    assert contents(tmp_path) == before


def test_other_code_is_normalised_again_and_equal_output_has_an_equal_digest(
    tmp_path: Path,
) -> None:
    plain, other, loud = (run(tmp_path, CHATS, n) for n in (as_it_is, strip_less, shouted))
    assert len({done.folders for done in (plain, other, loud)}) == 3
    assert plain.train.fingerprints == other.train.fingerprints != loud.train.fingerprints


def test_a_normalizer_that_can_not_be_pinned_down_runs_every_time_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []
    box = iter(range(10_000))

    def counting(row: dict[str, Any]) -> Any:
        next(box)
        seen.append(row)
        return row["result"]

    first = run(tmp_path, CHATS, counting)
    kept = list(first.train)
    again = run(tmp_path, CHATS, counting)
    assert len(seen) == 80
    assert list(again.train) == kept == list(first.train)
    assert "can not be pinned down (counting/box (range_iterator))" in caplog.text


def test_another_folder_or_order_of_sources_changes_no_digest(tmp_path: Path) -> None:
    here, there = run(tmp_path / "here", CHATS), run(tmp_path / "there", CHATS)
    assert here.folders[0].name == there.folders[0].name
    assert here.train.fingerprints == there.train.fingerprints


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sourcestore, "PART_ROWS", 5)
    for module in (sourcestore, sourcerows):
        monkeypatch.setattr(module, "READ_ROWS", 4)
    yield


def test_a_run_that_crashed_at_any_call_and_again_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_parts: None
) -> None:
    with failing_disk(monkeypatch, -1) as calls:
        expected = run(tmp_path / "whole", CHATS)
    bytes_expected = contents(tmp_path / "whole")
    assert len(expected.train.sources[0].parts) > 3
    for at in range(len(calls)):
        root = tmp_path / str(at)
        for again in (at, (at * 7) % 11):
            with failing_disk(monkeypatch, again), contextlib.suppress(Crash):
                run(root, CHATS)
        with failing_disk(monkeypatch, -1):
            done = run(root, CHATS)
        assert list(done.train) == list(expected.train)
        assert contents(root) == bytes_expected


def test_a_run_goes_on_behind_its_last_part(
    tmp_path: Path, small_parts: None, caplog: pytest.LogCaptureFixture
) -> None:
    def stop_at_20(name: str, done: int, total: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    caplog.set_level(logging.INFO)
    site = CacheSite(tmp_path, on_progress=stop_at_20)
    with pytest.raises(KeyboardInterrupt):
        normalize({"one": CHATS}, {"one": as_it_is}, site, seed=7, val_fraction=0.25)
    run(tmp_path, CHATS)
    assert "one: resuming at row 16" in caplog.text


def test_a_part_that_was_cut_or_changed_is_named_with_the_way_out(tmp_path: Path) -> None:
    done = run(tmp_path, CHATS)
    part = done.train.sources[0].parts[0].path
    data = bytearray(part.read_bytes())
    data[-300] ^= 1
    part.write_bytes(data)
    site = CacheSite(tmp_path, verify="full")
    with pytest.raises(DamagedFile, match=r"train-00000.arrow is not what.*rmtree"):
        normalize({"one": CHATS}, {"one": as_it_is}, site, seed=7, val_fraction=0.25)
    part.write_bytes(data[:-1])
    with pytest.raises(DamagedFile, match=r"train-00000.arrow holds.*rmtree"):
        run(tmp_path, CHATS)
    part.unlink()
    with pytest.raises(DamagedFile, match="is missing"):
        run(tmp_path, CHATS)


def test_two_processes_do_not_fill_one_folder(tmp_path: Path) -> None:
    folder = run(tmp_path, CHATS).folders[0]
    (folder / "meta.json").unlink()
    with FolderLock(folder / "lock"), pytest.raises(Locked):
        run(tmp_path, CHATS)


def test_saved_data_sets_are_opened_with_the_columns_of_the_registry(tmp_path: Path) -> None:
    import datasets
    import pyarrow as pa

    from pipeline_lib import saved
    from pipeline_lib.conversations import open_rows

    table = pa.table({"text": ["a", "b"], "extra": [1, 2]})
    features = datasets.Features.from_arrow_schema(table.schema)
    columns = {"text": pa.string()}
    saved.save(tmp_path / "one", [table], features, columns=columns, origin={})
    source = Source("a/b", "encyclopedic", columns, "free", "none")
    rows = open_rows(tmp_path / "one", source)
    assert rows.data[[1]] == {"text": ["b"]}
    assert not rows.tree
