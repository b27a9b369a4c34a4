"""The normalising stage: what is kept, where it goes, when it is done again, and after a crash."""

from pathlib import Path
from typing import Any

import pytest
from chat_world import (
    CHATS,
    ListRows,
    as_it_is,
    contents,
    normalized,
    numbered_chat,
    stored_conversations,
    turns,
)

from pipeline_lib.chat.conversation import Pair, Reject
from pipeline_lib.chat.rows import SourceRows
from pipeline_lib.selection import split_for


def strip_less(row: dict[str, Any]) -> Any:
    # the same output as as_it_is, by other code
    return list(row["result"])


def shouted(row: dict[str, Any]) -> Any:
    return [turn | {"content": turn["content"].upper()} for turn in row["result"]]


def test_every_conversation_comes_out_once_in_the_order_of_the_rows(tmp_path: Path) -> None:
    done = normalized(tmp_path, CHATS)
    kept = [*done.train, *done.val]
    assert sorted(map(str, kept)) == sorted(str(numbered_chat(i)) for i in range(40))
    assert list(done.train) == [c for i in range(40) if (c := numbered_chat(i)) in list(done.train)]


def test_the_split_follows_the_first_user_turn(tmp_path: Path) -> None:
    done = normalized(tmp_path, CHATS)
    for split, conversations in (("train", done.train), ("val", done.val)):
        assert len(conversations) > 0
        assert {split_for(c[0]["content"], 7, 0.25) for c in conversations} == {split}


def test_white_space_around_the_first_user_turn_changes_no_side(tmp_path: Path) -> None:
    spaces = ("{}", "{} ", "\n{}", "\t{}\r\n", "\u00a0{}\u3000")
    results = [turns(space.format(f"fact {i}"), "a") for i in range(40) for space in spaces]
    results += [
        turns(space.format(f"text {i}"), first="assistant") for i in range(40) for space in spaces
    ]
    done = stored_conversations(tmp_path, {"one": results}, val_fraction=0.5)
    train, val = ({c[0]["content"].strip() for c in side} for side in (done.train, done.val))
    assert len(train) + len(val) == 80 and min(len(train), len(val)) > 20
    assert not train & val
    assert len(done.train) + len(done.val) == len(results)


def test_a_pair_and_its_conversation_and_a_document_by_its_text_are_split(tmp_path: Path) -> None:
    for number in range(6):
        question, text = f"question {number}", f"text {number}"
        pair = Pair(turns(question), turns("a", first="assistant"), turns("b", first="assistant"))
        results = [pair, turns(question, "c"), turns(text, first="assistant")]
        done = stored_conversations(tmp_path / str(number), {"one": results}, val_fraction=0.5)
        sides = {
            split: [c[0]["content"] for c in getattr(done, split)] for split in ("train", "val")
        }
        assert sides[split_for(question, 7, 0.5)].count(question) == 2
        assert text in sides[split_for(text, 7, 0.5)]


def test_the_tables_show_each_source_and_each_reason(tmp_path: Path) -> None:
    done = stored_conversations(
        tmp_path, {"one": [numbered_chat(1), Reject("tie")], "two": [numbered_chat(2)]}
    )
    assert done.table.rows == (("one", 2, 1, 0, 1, "tie"), ("two", 1, 1, 0, 0, ""))
    assert done.reasons.rows == (("one", "rejected", "tie", 1),)


def test_a_source_without_rows_is_listed_with_none(tmp_path: Path) -> None:
    done = stored_conversations(tmp_path, {"none": [], "one": [numbered_chat(1)]})
    assert done.table.rows[0][:-1] == ("none", 0, 0, 0, 0, "")
    assert str(done.table.rows[0][-1]).startswith("missing: it has no row")


def test_an_equal_run_reads_the_rows_of_the_probe_and_writes_nothing(tmp_path: Path) -> None:
    first = normalized(tmp_path, CHATS)
    before = contents(tmp_path)
    read: list[int] = []

    class Watched(ListRows):
        def __getitem__(self, places: list[int]) -> dict[str, list[Any]]:
            read.extend(places)
            return super().__getitem__(places)

    again = normalized(tmp_path, SourceRows(Watched(CHATS.data.rows), CHATS.fingerprint))  # type: ignore[attr-defined]
    assert list(again.train) == list(first.train)
    assert sorted(read) == list(range(40))  # the rows of the probe, each of them once
    assert contents(tmp_path) == before


def test_other_code_is_normalised_again_and_equal_output_has_an_equal_digest(
    tmp_path: Path,
) -> None:
    plain, other, loud = (normalized(tmp_path, CHATS, n) for n in (as_it_is, strip_less, shouted))
    assert len({done.folders for done in (plain, other, loud)}) == 3
    assert plain.train.fingerprints == other.train.fingerprints != loud.train.fingerprints


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("store_progress.PART_ROWS", 19_999),
        ("row_results.conversation_bytes", lambda conversation: str(conversation).encode()),
        ("source_store.selection.side", lambda identity, threshold: "train"),
    ],
)
def test_another_version_of_this_library_normalises_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, value: Any
) -> None:
    before = normalized(tmp_path, CHATS)
    with monkeypatch.context() as patch:
        patch.setattr(f"pipeline_lib.chat.{place}", value)
        assert normalized(tmp_path, CHATS).folders != before.folders
    assert normalized(tmp_path, CHATS).folders == before.folders


def test_a_normalizer_that_can_not_be_pinned_down_runs_every_time_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []
    box = iter(range(10_000))

    def counting(row: dict[str, Any]) -> Any:
        next(box)
        seen.append(row)
        return row["result"]

    first = normalized(tmp_path, CHATS, counting)
    kept = list(first.train)
    again = normalized(tmp_path, CHATS, counting)
    assert len(seen) == 80
    assert list(again.train) == kept == list(first.train)
    assert "can not be pinned down (counting/box (range_iterator))" in caplog.text


def test_another_folder_or_order_of_sources_changes_no_digest(tmp_path: Path) -> None:
    here, there = normalized(tmp_path / "here", CHATS), normalized(tmp_path / "there", CHATS)
    assert here.folders[0].name == there.folders[0].name
    assert here.train.fingerprints == there.train.fingerprints
