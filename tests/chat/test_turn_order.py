"""Who may speak after whom: every order is right, or wrong for one named reason."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.turn_order import (
    NO_ANSWER,
    NO_CALL,
    NO_RESULT,
    OTHER_IDS,
    check_order,
)
from pipeline_lib.records import ToolCall, Turn

LETTERS = {"s": "system", "u": "user", "a": "assistant", "c": "assistant", "t": "tool"}
"""A letter for each kind of turn; ``c`` is an assistant's that calls a tool."""


def call(number: str = "") -> ToolCall:
    made: ToolCall = {"type": "function", "function": {"name": "f", "arguments": {}}}
    return made | {"id": number} if number else made


def talk(letters: str) -> list[Turn]:
    turns = [Turn(role=LETTERS[letter], content="x") for letter in letters]
    for letter, turn in zip(letters, turns, strict=True):
        if letter == "c":
            turn["tool_calls"] = [call()]
    return turns


def verdict(turns: list[Turn]) -> str:
    try:
        check_order(turns)
    except Reject as reject:
        return reject.reason
    return "right"


def is_right(letters: str) -> bool:
    """The grammar, letter by letter: the kinds of turn that may follow each."""
    follow = {"": "su", "s": "u", "u": "ac", "a": "u", "c": "t", "t": "tac"}
    body = letters.removeprefix("s")
    steps = itertools.pairwise(["", *letters])
    return body == "a" or (all(b in follow[a] for a, b in steps) and letters[-1] in "ac")


@pytest.mark.parametrize("size", range(1, 7))
def test_the_orders_that_pass_are_those_of_the_grammar(size: int) -> None:
    letters = map("".join, itertools.product("suact", repeat=size))
    wrong = [word for word in letters if (verdict(talk(word)) == "right") != is_right(word)]
    assert wrong == []


@pytest.mark.parametrize(
    ("letters", "reason"),
    [
        ("uta", NO_CALL),
        ("uata", NO_CALL),
        ("tua", NO_CALL),
        ("stua", NO_CALL),
        ("ucua", NO_RESULT),
        ("uca", NO_RESULT),
        ("ucca", NO_RESULT),
        ("uctua", NO_ANSWER),
        ("uct", "ends with a tool turn"),
        ("uctau", "ends with a user turn"),
        ("uctaa", "same role twice in a row"),
        ("uucta", "same role twice in a row"),
        ("cta", "starts with an assistant turn"),
        ("c", "starts with an assistant turn"),
        ("ucsta", "a system turn is not first"),
        ("ut", "no assistant turn"),
    ],
)
def test_a_wrong_order_has_its_reason(letters: str, reason: str) -> None:
    assert verdict(talk(letters)) == reason


IDS = st.lists(st.sampled_from(["1", "2", "3", ""]), min_size=1, max_size=3)


@given(IDS, IDS)
def test_ids_of_calls_and_results_are_the_same_if_all_have_one(
    called: list[str], answered: list[str]
) -> None:
    turns = talk(f"uc{'t' * len(answered)}a")
    turns[1]["tool_calls"] = [call(number) for number in called]
    for turn, number in zip(turns[2:], answered, strict=False):
        if number:
            turn["tool_call_id"] = number
    same = sorted(called) == sorted(answered) or "" in called + answered
    assert verdict(turns) == ("right" if same else OTHER_IDS)


def test_the_ids_of_one_call_have_nothing_to_do_with_those_of_the_next() -> None:
    turns = talk("uctcta")
    for place, number in ((1, "1"), (3, "2")):
        turns[place]["tool_calls"] = [call(number)]
        turns[place + 1]["tool_call_id"] = number
    assert verdict(turns) == "right"
    turns[4]["tool_call_id"] = "1"
    assert verdict(turns) == OTHER_IDS
    turns[3]["tool_calls"] = [call("1")]
    assert verdict(turns[:4]) == "right"
