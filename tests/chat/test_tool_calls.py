"""Tool calls in the shapes of the wild: one form, keys in order, nothing lost unsaid."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.tool_calls import NO_ARGUMENTS, NULLS, calls_in_content, calls_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
ARGUMENTS = st.dictionaries(TEXT, st.integers() | TEXT | st.lists(st.booleans()), max_size=3) | TEXT
FUNCTION = {"name": "f", "arguments": {"b": 1, "a": 2}}
CALL = {"type": "function", "function": FUNCTION}


def read(calls: Any) -> tuple[list[Any], list[str]]:
    """The calls of a message, and the notes."""
    notes = dict[str, None]()
    return list(calls_of({"tool_calls": calls}, notes)), [*notes]


def refusal(calls: Any) -> str:
    with pytest.raises(Reject) as found:
        read(calls)
    return found.value.reason


@given(ARGUMENTS, st.permutations(["type", "id", "function"]), st.booleans())
def test_a_call_as_openai_writes_it_is_itself_to_the_letter(
    arguments: object, order: list[str], name_first: bool
) -> None:
    function = {"name": "f", "arguments": arguments}
    if not name_first:
        function = dict(reversed(function.items()))
    whole = {"type": "function", "id": "call_1", "function": function}
    call = {key: whole[key] for key in order}
    found, notes = read([call])
    assert json.dumps(found) == json.dumps([call]) and notes == []


@pytest.mark.parametrize(
    "calls",
    [
        [FUNCTION],
        FUNCTION,
        json.dumps(FUNCTION),
        [json.dumps(CALL)],
        np.array([CALL], object),
        (CALL,),
        [{**FUNCTION, "type": "tool_call"}],
        [{"name": "f", "parameters": {"b": 1, "a": 2}}],
        [{"name": "f", "args": {"b": 1, "a": 2}, "id": None}],
        [{"type": None, "name": None, "arguments": None, "function": FUNCTION}],
        [{"function": json.dumps(FUNCTION)}],
        [None, {"function": None}, CALL],
    ],
)
def test_other_shapes_of_a_call_become_that_form(calls: Any) -> None:
    found, notes = read(calls)
    assert json.dumps(found) == json.dumps([CALL]) and notes == []


def test_arguments_in_text_stay_text_whatever_it_holds() -> None:
    for text in ('{"b": 1,  "a": null}', "no JSON", "[1]", ""):
        found, notes = read([{"name": "f", "arguments": text}])
        assert found[0]["function"]["arguments"] == text and notes == []


def test_nulls_of_columnar_files_are_left_out_with_a_word() -> None:
    arguments = {"b": None, "a": {"c": None, "d": [None, {"e": None}]}, "f": 0}
    found, notes = read([{"name": "f", "arguments": arguments}])
    assert found[0]["function"]["arguments"] == {"a": {"d": [None, {}]}, "f": 0}
    assert notes == [NULLS]
    assert read([{"name": "f", "arguments": {"b": None}}])[0][0]["function"]["arguments"] == {}
    assert read([{"name": "f", "arguments": None}]) == (
        [{"type": "function", "function": {"name": "f", "arguments": {}}}],
        [NO_ARGUMENTS],
    )


def test_keys_that_are_not_read_are_named() -> None:
    call = {**CALL, "index": 0, "x": None, "function": {**FUNCTION, "strict": True, "y": None}}
    named = [f"tool call key {key!r} is not read" for key in ("index", "strict")]
    assert read([call]) == ([CALL], named)
    assert read([{**FUNCTION, "index": 0, "args": "z"}])[1] == [
        "tool call key 'index' is not read",
        "tool call key 'args' is not read",
    ]


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([{"id": "1", "function": {"arguments": {}}}], "a tool call without a name"),
        ([{"name": 5, "arguments": {}}], "name of a tool call is not text (int)"),
        ([{**CALL, "id": 5}], "id of a tool call is not text (int)"),
        ([{**CALL, "type": "web_search"}], "a tool call of the type 'web_search' is not read"),
        ([{"name": "f", "arguments": [1]}], "arguments of a tool call are no object (list)"),
        ([{"name": "f", "arguments": 5}], "arguments of a tool call are no object (int)"),
        ([{"name": "f", "arguments": {"a": float("nan")}}], "an argument of a tool call is not"),
        ([{"name": "f", "arguments": "\ud800"}], "arguments of a tool call is not valid Unicode"),
        ([{"name": "\ud800"}], "name of a tool call is not valid Unicode"),
        ([{"name": "f", "input": {"a": 1}}], "a tool call without arguments, but with other keys"),
        ("[x", "tool calls are text that is not JSON"),
        (["x"], "a tool call is text that is not JSON"),
        ([5], "a tool call is not an object (int)"),
        (5, "tool calls are not a list (int)"),
        ([{"function": [1]}], "the function of a tool call is not an object (list)"),
        ([{"function": "f"}], "the function of a tool call is text that is not JSON"),
    ],
)
def test_what_is_no_call_is_refused_by_name(calls: Any, reason: str) -> None:
    assert refusal(calls).startswith(reason)


def test_the_old_field_of_one_call_is_read_and_may_only_repeat_the_new_one() -> None:
    notes = dict[str, None]()
    assert calls_of({"function_call": FUNCTION}, notes) == [CALL]
    assert calls_of({"function_call": FUNCTION, "tool_calls": [{**CALL, "id": "1"}]}, notes) == [
        {**CALL, "id": "1"}
    ]
    assert calls_of({"function_call": {"name": None}, "tool_calls": []}, notes) == []
    assert not notes
    with pytest.raises(Reject, match="two different tool calls of one turn"):
        calls_of({"function_call": FUNCTION, "tool_calls": [FUNCTION, FUNCTION]}, notes)


@pytest.mark.parametrize(
    "content", ["f(1)", "5", "[]", '{"name": "f"}', None, [], {}, '[[1], "x"]']
)
def test_a_content_that_is_no_call_gives_none(content: object) -> None:
    assert calls_in_content(content, {}) == []
