"""The order of turns in a conversation: who may speak after whom, and what a rejection says. Pure.

A user's turn is followed by an assistant's. An assistant's turn is followed by a user's, or, if it
calls tools, by the results of its calls, one or more, and then by an assistant's again.
"""

from collections.abc import Sequence
from itertools import pairwise

from pipeline_lib.chat.reject import Reject
from pipeline_lib.records import Turn

NO_CALL = "a tool turn that answers no call"
NO_RESULT = "a tool call without a result"
NO_ANSWER = "a tool result without an answer"
OTHER_IDS = "ids of tool calls and of their results differ"


def check_order(turns: Sequence[Turn]) -> None:
    """``Reject`` unless the turns of a conversation are in order.

    A system turn may only be the first turn. The others begin with a user's turn and end with an
    assistant's; a single assistant turn without calls is a document.
    """
    body = turns[turns[0]["role"] == "system" :]
    roles = [turn["role"] for turn in body]
    if "system" in roles:
        raise Reject("a system turn is not first")
    if "assistant" not in roles:
        raise Reject("no assistant turn")
    if "tool" in roles or [turn for turn in body if "tool_calls" in turn]:
        _check_tool_turns(body)
    elif any(left == right for left, right in pairwise(roles)):
        raise Reject("same role twice in a row")
    if roles[-1] != "assistant":
        raise Reject(f"ends with a {roles[-1]} turn")
    if roles[0] != "user" and (len(roles) > 1 or "tool_calls" in body[0]):
        raise Reject("starts with an assistant turn")


def _check_tool_turns(body: Sequence[Turn]) -> None:
    if body[0]["role"] == "tool":
        raise Reject(NO_CALL)
    for left, right in pairwise(body):
        if fault := _fault(left, right):
            raise Reject(fault)
    for place, turn in enumerate(body):
        if "tool_calls" in turn:
            _check_ids(turn, body[place + 1 :])


def _fault(left: Turn, right: Turn) -> str:
    """What is wrong with two neighbours, or nothing."""
    calls = "tool_calls" in left
    if right["role"] == "tool":
        return "" if calls or left["role"] == "tool" else NO_CALL
    if calls:
        return NO_RESULT
    if left["role"] == "tool":
        return "" if right["role"] == "assistant" else NO_ANSWER
    return "same role twice in a row" if left["role"] == right["role"] else ""


def _check_ids(caller: Turn, after: Sequence[Turn]) -> None:
    """The ids of calls and results must be the same, if all of both have one."""
    stop = next((n for n, turn in enumerate(after) if turn["role"] != "tool"), len(after))
    called = [call.get("id", "") for call in caller["tool_calls"]]
    answered = [turn.get("tool_call_id", "") for turn in after[:stop]]
    if answered and all((*called, *answered)) and sorted(called) != sorted(answered):
        raise Reject(OTHER_IDS)
