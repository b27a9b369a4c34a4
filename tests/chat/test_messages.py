"""Messages in the shapes of the wild: read, noted, or refused by name; never dropped in silence."""

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.conversation import Reject, Turns, check_result
from pipeline_lib.chat.messages import JOINED, OTHER_SYSTEM, read_turns
from pipeline_lib.chat.thoughts import thought
from pipeline_lib.chat.turns import assistant, canonical_thoughts, tidy, user
from pipeline_lib.records import Turn

CANONICAL = "<think>\nwhy\n</think>\n\nYes."


def letters(turns: list[Turn]) -> str:
    return "".join(turn["role"][0] for turn in turns)


def test_roles_and_keys_of_the_wild_are_understood() -> None:
    messages = [
        {"from": "System", "value": "s"},
        {"role": "prompter", "text": "q"},
        {"from": "gpt", "value": "a", "weight": None},
    ]
    assert read_turns(messages) == [Turn(role="system", content="s"), user("q"), assistant("a")]


def test_null_padded_keys_count_as_absent() -> None:
    plain = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    padding = {"name": None, "tool_calls": None, "reasoning_content": None, "value": None}
    assert read_turns([m | padding for m in plain]) == read_turns(plain)


def test_a_null_content_never_becomes_the_word_none() -> None:
    asked = [{"from": "human", "value": "q"}, {"from": "gpt", "value": None}]
    with pytest.raises(Reject, match="no assistant turn"):
        tidy(read_turns(asked))


def test_a_struct_of_lists_is_read_as_a_list_of_turns() -> None:
    assert read_turns({"role": ["user", "assistant"], "content": ["q", "a"]}) == [
        user("q"),
        assistant("a"),
    ]
    with pytest.raises(Reject, match="differ in length"):
        read_turns({"role": ["user", "assistant"], "content": ["q"]})


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (None, "no turns"),
        ([], "no turns"),
        ("text", "one string"),
        (["text"], "not a message"),
        ([None], "not a message"),
        ([{"content": "x"}], "unknown role 'None'"),
        ([{"role": "narrator", "content": "x"}], "unknown role 'narrator'"),
        ([{"role": "user", "content": 5}], "content is not text (int)"),
        ([{"role": "tool", "content": {"sunny": True}}], "content is not text (an object)"),
        ([{"role": "user", "content": [5]}], "content is not text (list of int)"),
        ("[1", "one string that is not JSON"),
        ("5", "turns are not a list (int)"),
        ({"role": "user", "content": "four"}, "turns are one message"),
    ],
)
def test_malformed_messages_are_rejected_by_name(messages: object, expected: str) -> None:
    with pytest.raises(Reject, match=re.escape(expected)):
        read_turns(messages)


def test_a_system_prompt_outside_the_messages_is_not_emitted_twice() -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    assert letters(read_turns(messages, system="s")) == "sua"
    assert letters(read_turns(messages, system=" ")) == "ua"
    inside = [{"role": "system", "content": "mine"}, *messages]
    assert read_turns(inside, system="s") == read_turns(inside)


def test_reasoning_in_a_field_of_its_own_goes_in_front_of_the_answer() -> None:
    message = {"role": "assistant", "content": "Yes.", "reasoning_content": "why"}
    assert read_turns([message]) == [assistant(CANONICAL)]
    assert read_turns([message | {"reasoning_content": ""}]) == [assistant("Yes.")]
    assert thought(None, "Yes.") == "Yes."


ASKED = {"role": "user", "content": "q"}


def refused(message: dict[str, Any]) -> str:
    with pytest.raises(Reject) as found:
        read_turns([ASKED, {"role": "assistant", "content": "a", **message}])
    return found.value.reason


@pytest.mark.parametrize(
    "flag",
    [
        *({name: no} for name in ("weight", "loss") for no in (0, 0.0, "0", False, np.float32(0))),
        *({name: no} for name in ("train", "trainable", "learn") for no in (False, "False", "no")),
        {"training": np.False_},
        {"do_not_train": True},
        {"masked": 1},
        {"trainOnTurn": False},
        {"train": True, "weight": 0},
    ],
)
def test_a_turn_that_its_data_set_excludes_is_never_learned(flag: dict[str, Any]) -> None:
    read = read_turns([ASKED, {"role": "assistant", "content": "BAD", **flag}])
    assert read == [user("q"), assistant("BAD") | {"learn": False}]
    kept = check_result(tidy(read))
    assert isinstance(kept, Turns) and kept == read and kept.notes


@pytest.mark.parametrize(
    "flag", [{"weight": 1}, {"train": True}, {"loss": "true"}, {"masked": False}, {"weight": None}]
)
def test_a_turn_that_its_data_set_includes_is_learned_without_a_word(flag: dict[str, Any]) -> None:
    read = read_turns([ASKED, {"role": "assistant", "content": "a", **flag}])
    assert read == [user("q"), assistant("a")] and read.notes == ()
    assert read_turns([ASKED, {"from": "gpt", "value": "a", "weight": float("nan")}]).notes == ()


def test_a_flag_that_is_neither_yes_nor_no_is_refused_or_noted() -> None:
    assert refused({"train": "maybe"}) == "turn flag 'train' is neither yes nor no"
    assert refused({"weight": -1}) == "turn flag 'weight' is neither yes nor no"
    assert "neither" in refused({"train_detail": [{"begin_offset": 0, "train": False}]})
    half = read_turns([ASKED, {"role": "assistant", "content": "a", "weight": 0.5}])
    assert half.notes == ("turn flag 'weight' is neither 0 nor 1: learned in full",)


def test_a_flag_of_another_speaker_has_no_effect_and_is_noted_if_it_asks_for_one() -> None:
    read = read_turns([ASKED | {"weight": 0}, {"role": "assistant", "content": "a"}])
    assert read == [user("q"), assistant("a")] and read.notes == ()
    assert len(read_turns([ASKED | {"train": True}]).notes) == 1


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"tool_results": [{"name": "f"}]},
        {"tool_call_id": "1"},
        {"content": [{"type": "text", "text": "a"}, {"type": "tool_use", "name": "f"}]},
        {"content": [{"type": "tool_result", "content": "5"}]},
        {"role": "tools"},
        {"role": "function_call"},
        {"role": "tool_call", "content": '{"name": "f"}'},
        {"role": "tool_call", "content": '{"name": "f", "arguments": {}}', "tool_calls": ["x"]},
    ],
)
def test_a_tool_call_in_another_shape_is_refused_by_name(message: dict[str, Any]) -> None:
    assert "tool calls are not read in this form" in refused(message)


CALL = {"type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": 2}}}
CALLING = Turn(role="assistant", content="", tool_calls=[CALL])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "tool_calls": [CALL]},
        {"content": "", "tool_calls": json.dumps([CALL])},
        {"content": "", "function_call": CALL["function"]},
        {"role": "function_call", "content": json.dumps(CALL["function"])},
        {"role": "tool-call", "content": json.dumps([CALL["function"]])},
        {"role": "tool_call", "content": CALL["function"]},
    ],
)
def test_a_call_is_read_from_its_field_or_from_the_content_of_its_role(
    message: dict[str, Any],
) -> None:
    read = read_turns([{"role": "assistant", "content": "a", **message}])
    assert read == [CALLING] and read.notes == ()
    assert json.dumps([*read]) == json.dumps([CALLING])


ROLES_OF_TOOLS = ("tool", "function", "Observation", "ipython", "tool_response", "environment")


@pytest.mark.parametrize("role", [*ROLES_OF_TOOLS, "function_response", "tool_result"])
def test_a_result_is_read_with_its_name_and_id_and_may_be_blank(role: str) -> None:
    said = {"role": role, "content": "5", "name": "f", "tool_call_id": "1", "status": "ok"}
    read = read_turns([said])
    assert read == [Turn(role="tool", content="5", name="f", tool_call_id="1")]
    assert read.notes == ("turn key 'status' is not read",)
    assert read_turns([{"from": role, "value": None}]) == [Turn(role="tool", content="")]
    with pytest.raises(Reject, match="tool_call_id of a tool turn is not text"):
        read_turns([said | {"tool_call_id": 5}])


def test_what_was_thought_before_a_call_stays_without_an_answer() -> None:
    message = {"role": "assistant", "content": "", "tool_calls": [CALL], "reasoning": "why"}
    thinking = CALLING | {"content": "<think>\nwhy\n</think>\n\n"}
    assert read_turns([message]) == [thinking]
    assert canonical_thoughts(read_turns([message])) == [thinking]
    inside = message | {"content": "<think>why</think>", "reasoning": None}
    assert canonical_thoughts(read_turns([inside])) == [thinking]


def test_tools_of_a_row_come_with_its_turns_and_stay() -> None:
    schema = {"name": "f", "parameters": {"z": 1, "a": None}}
    read = read_turns([ASKED, {"role": "assistant", "content": "a"}], tools=[schema])
    offered = [{"type": "function", "function": {"name": "f", "parameters": {"z": 1}}}]
    assert read.tools == offered and read.notes == ("nulls of tool schemas left out",)
    kept = check_result(canonical_thoughts(tidy(read)))
    assert isinstance(kept, Turns) and kept.tools == offered


@pytest.mark.parametrize("nothing", [None, [], "", "[]", {"name": None}, [{"function": None}]])
def test_a_tool_call_that_holds_nothing_is_none(nothing: object) -> None:
    padded = {"role": "assistant", "content": "a", "tool_calls": nothing, "function_call": nothing}
    assert read_turns([padded]).notes == () and read_turns([padded]) == [assistant("a")]


def test_a_content_in_parts_is_its_texts_and_only_text() -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"text": "c", "image_url": None}]
    for content in (parts, np.array(parts, object)):
        read = read_turns([{"role": "assistant", "content": content}])
        assert read == [assistant("a\nb\nc")] and read.notes == (JOINED,)
    assert read_turns([{"role": "user", "content": [{"type": "text", "text": "q"}]}]).notes == ()
    for part in ({"type": "image_url", "image_url": {"url": "x"}}, {"type": "input_audio"}, {}):
        assert "only text is read" in refused({"content": [{"type": "text", "text": "a"}, part]})
    assert "only text is read" in refused({"images": ["x.png"]})
    cached = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    noted = read_turns([{"role": "assistant", "content": [cached]}]).notes
    assert noted == ("content part key 'cache_control' is not read",)


@given(st.dictionaries(st.sampled_from(["id", "name", "toxic", "ts", "text"]), st.just("held")))
def test_every_key_that_holds_something_and_is_not_read_is_named(extra: dict[str, str]) -> None:
    read = read_turns([ASKED | extra, {"role": "assistant", "content": "a"} | extra])
    assert read == [user("q"), assistant("a")]
    assert {*read.notes} == {f"turn key {key!r} is not read" for key in extra}


def test_a_second_text_of_a_turn_is_named_unless_it_repeats_the_first() -> None:
    assert read_turns([ASKED | {"value": "q", "from": "user"}]).notes == ()
    assert len(read_turns([ASKED | {"value": "other"}]).notes) == 1
    inside = [{"role": "system", "content": "mine"}, ASKED]
    assert read_turns(inside, system="s").notes == (OTHER_SYSTEM,)
    assert read_turns(inside, system="mine").notes == ()


@pytest.mark.parametrize(
    "shape",
    [
        json.dumps,
        lambda turns: [json.dumps(t) for t in turns],
        lambda turns: np.array(turns, object),
        lambda turns: json.dumps(json.dumps(turns)),
        lambda turns: json.dumps(turns).encode(),
        tuple,
    ],
)
def test_turns_in_json_or_in_an_array_are_the_same_turns(shape: Any) -> None:
    plain = [ASKED, {"role": "assistant", "content": "a", "weight": 0}]
    assert read_turns(shape(plain)) == read_turns(plain)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking", "thought"])
def test_reasoning_beside_a_block_is_one_block_or_a_refusal(field: str) -> None:
    message = {"role": "assistant", "content": "<think> why </think>Yes.", field: "why"}
    assert read_turns([message]) == [assistant(CANONICAL)]
    assert read_turns([message | {"content": "why</think>Yes."}]) == [assistant(CANONICAL)]
    assert "two different" in refused(message | {field: "other"})
    assert (
        refused(message | {"content": "<think>a</think>b</think>"}) == "more than one think block"
    )
    assert refused(message | {field: {"steps": "why"}}) == "reasoning is not text"
    both = {"type": "thinking", "thinking": "why"}, {"type": "text", "text": "Yes."}
    assert read_turns([{"role": "assistant", "content": [*both]}]) == [assistant(CANONICAL)]
