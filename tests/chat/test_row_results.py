"""What one row gives: the outcome, its side and its bytes."""

from typing import Any

import pytest
from chat_world import numbered_chat

from pipeline_lib.chat.conversation import Pair, Reject, Turns
from pipeline_lib.chat.row_results import result_of
from pipeline_lib.chat.store_format import conversation_bytes
from pipeline_lib.selection import Split


def always_val(conversation: Turns | Pair) -> Split:
    return "val"


def test_a_conversation_has_a_side_and_its_bytes() -> None:
    result = result_of({"result": numbered_chat(1)}, lambda row: row["result"], always_val)
    assert (result.outcome, result.split) == (numbered_chat(1), "val")
    assert result.data == conversation_bytes(Turns(numbered_chat(1)))


def raising(row: dict[str, Any]) -> Any:
    raise row["raises"]


def test_a_rejection_returned_raised_or_found_by_the_check_has_neither() -> None:
    returned = result_of({}, lambda row: Reject("tie"), always_val)
    raised = result_of({"raises": Reject("tie")}, raising, always_val)
    checked = result_of({}, lambda row: [], always_val)
    for result, reason in ((returned, "tie"), (raised, "tie"), (checked, "no turns")):
        assert isinstance(result.outcome, Reject) and result.outcome.reason == reason
        assert (result.split, result.data, result.traceback) == (None, b"", "")


def test_an_exception_is_a_rejection_with_its_traceback_but_an_interrupt_is_none() -> None:
    result = result_of({"raises": ValueError("odd row")}, raising, always_val)
    assert isinstance(result.outcome, Reject) and result.outcome.reason == "raised ValueError"
    assert "odd row" in result.traceback
    with pytest.raises(KeyboardInterrupt):
        result_of({"raises": KeyboardInterrupt()}, raising, always_val)
