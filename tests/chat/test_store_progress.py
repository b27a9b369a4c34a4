"""The state of a growing store: however rows are added, it is the same, and it never changes."""

import copy

import pytest
from chat_world import numbered_chat

from pipeline_lib.chat import store_progress
from pipeline_lib.chat.conversation import Pair, Reject, Turns
from pipeline_lib.chat.row_results import RowResult, result_of
from pipeline_lib.chat.store_progress import StoreProgress, resumed
from pipeline_lib.chat.store_record import StoreDetails
from pipeline_lib.selection import Split

EMPTY = resumed(StoreDetails(), {})


def side(conversation: Turns | Pair) -> Split:
    return "val" if len(str(conversation)) % 3 == 0 else "train"


def some_results(count: int) -> list[RowResult]:
    """Conversations of both sides, rejections, and one exception."""
    found = []
    for number in range(count):
        turns = Turns(numbered_chat(10 ** (number % 4)), ["noted"] if number % 5 == 0 else [])
        outcome = Reject(f"reason {number % 2}") if number % 4 == 3 else turns
        found.append(result_of({"n": number}, lambda row, o=outcome: o, side))  # type: ignore[misc]
    return [*found, result_of({}, lambda row: row["none"], side)]


@pytest.mark.parametrize("cut", [0, 1, 7, 20, 21])
def test_rows_added_in_two_steps_give_the_state_of_one_step(cut: int) -> None:
    results = some_results(20)
    whole, halves = EMPTY.plus(results), EMPTY.plus(results[:cut]).plus(results[cut:])
    assert halves == whole
    assert whole.report.rows == 21 == whole.report.rejected + whole.report.train + whole.report.val
    assert whole.report.rejects == {"reason 1": 5, "raised KeyError": 1}
    assert whole.report.notes == {"noted": 3}
    assert "KeyError" in whole.report.first_traceback


def test_adding_rows_leaves_the_state_before_as_it_was() -> None:
    state = EMPTY.plus(some_results(5))
    before = copy.deepcopy(state)
    state.plus(some_results(9))
    state.closed()
    assert state == before


def test_a_state_read_back_from_its_record_goes_on_as_if_it_had_stayed() -> None:
    results = some_results(20)
    state = EMPTY.plus(results[:9])
    details = StoreDetails(digests=state.digests, report=state.report)
    again: StoreProgress = resumed(details, state.open)
    assert again.plus(results[9:]) == state.plus(results[9:])


def test_a_part_is_full_by_its_rows_or_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    state = EMPTY.plus(some_results(12))
    assert not state.full
    with monkeypatch.context() as patch:
        patch.setattr(store_progress, "PART_ROWS", max(map(len, state.open.values())))
        assert state.full and not state.closed().full
    monkeypatch.setattr(store_progress, "PART_BYTES", state.size)
    assert state.full and not state.closed().full
