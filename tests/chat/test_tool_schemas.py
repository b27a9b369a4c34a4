"""The schemas of tools: one form, to the letter, or a named refusal."""

import json
from typing import Any

import numpy as np
import pytest

from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.tool_schemas import NULLS, checked_tools, read_tools

SCHEMA = {"name": "f", "parameters": {"z": {"type": "string"}, "a": [1, 1.5]}, "description": "é"}
TOOL = {"type": "function", "function": SCHEMA}


def read(tools: Any) -> tuple[Any, list[str]]:
    """The tools, and the notes."""
    notes = dict[str, None]()
    return read_tools(tools, notes), [*notes]


@pytest.mark.parametrize(
    "tools",
    [
        [TOOL],
        (TOOL,),
        TOOL,
        SCHEMA,
        [SCHEMA],
        [{"type": "function", **SCHEMA}],
        [{"function": SCHEMA}],
        json.dumps([TOOL]),
        json.dumps(SCHEMA),
        [json.dumps(TOOL)],
        json.dumps(json.dumps([TOOL])),
        np.array([TOOL], object),
        [None, TOOL],
        [{"type": None, "function": SCHEMA}],
    ],
)
def test_tools_in_any_shape_are_openai_s_form_with_their_keys_in_order(tools: Any) -> None:
    found, _ = read(tools)
    assert json.dumps(found) == json.dumps([TOOL])


@pytest.mark.parametrize("tools", [None, [], "", "[]", "null", [None], [{}], "{}", float("nan")])
def test_no_tools_are_none(tools: Any) -> None:
    assert read(tools) == (None, []) and checked_tools([]) is None


def test_nulls_are_left_out_with_a_word_unless_the_tools_are_json_in_a_text() -> None:
    padded = {"name": "f", "parameters": {"a": {"default": None, "type": "string"}, "b": None}}
    plain = {"name": "f", "parameters": {"a": {"type": "string"}}}
    assert read([padded]) == ([{"type": "function", "function": plain}], [NULLS])
    for written in (json.dumps([padded]), [json.dumps(padded)]):
        assert read(written) == ([{"type": "function", "function": padded}], [])
    kept = [{"type": "function", "function": padded}]
    assert checked_tools(kept) == kept


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        ("search the web", "tools are text that is not JSON"),
        (["f(x)"], "a tool is text that is not JSON"),
        ("5", "tools are not a list (int)"),
        (5, "tools are not a list (int)"),
        ([5], "a tool is not an object (int)"),
        ([{"type": "web_search", "name": "w"}], "a tool of the type 'web_search' is not read"),
        ([{"name": "f", "input_schema": {"a": 1}}], "tools are not read in this form"),
        ([{"description": "x"}], "a tool without a name"),
        ([{"type": "function", "function": {"parameters": {"a": 1}}}], "a tool without a name"),
        ([{"type": "function", "function": "f"}], "a tool without a name"),
        ([{"name": "f", "x": float("inf")}], "the schema of a tool is not JSON (inf)"),
        ([{"name": "\ud800"}], "the schema of a tool is not valid Unicode"),
    ],
)
def test_what_is_no_tool_is_refused_by_name(tools: Any, reason: str) -> None:
    with pytest.raises(Reject) as found:
        read(tools)
    assert found.value.reason.startswith(reason)


def test_tools_of_a_result_must_be_a_list() -> None:
    with pytest.raises(Reject, match="tools are not a list"):
        checked_tools("[]")
