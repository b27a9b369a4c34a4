"""The chat contract: what a conversation is, how it is rendered, what is rejected and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.conversation import (
    MARKER_NOTE,
    UNLEARNED_NOTE,
    Pair,
    Reject,
    Turns,
    check_result,
)
from pipeline_lib.records import ToolCall, Turn
from pipeline_lib.templates.chatml import RENDERED_ROLES, render, segments
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS

CONTENT = st.text(max_size=40) | st.sampled_from(CONTROL_TOKENS)
TURN = st.builds(Turn, role=st.sampled_from(RENDERED_ROLES), content=CONTENT)
FLAGGED = st.builds(
    Turn,
    role=st.sampled_from(RENDERED_ROLES),
    content=CONTENT,
    learn=st.booleans(),
    cut=st.booleans(),
)


def turn(role: str, content: object = "x") -> dict[str, object]:
    return {"role": role, "content": content}


def reason(result: object) -> str:
    verdict = check_result(result)  # type: ignore[arg-type]
    assert isinstance(verdict, Reject)
    return verdict.reason


def test_a_turn_is_rendered_without_newlines_and_nothing_is_added() -> None:
    conversation = [Turn(role="user", content="Hi\n"), Turn(role="assistant", content="Yo")]
    assert render(conversation) == (
        "<|im_start|>user<|im_sep|>Hi\n<|im_end|><|im_start|>assistant<|im_sep|>Yo<|im_end|>"
    )


@given(st.lists(TURN), st.lists(TURN))
def test_rendering_is_additive(left: list[Turn], right: list[Turn]) -> None:
    assert render(left + right) == render(left) + render(right)


@given(st.lists(FLAGGED))
def test_the_trained_text_is_each_learned_content_with_its_end_mark_unless_cut(
    turns: list[Turn],
) -> None:
    trained = "".join(segment.text for segment in segments(turns) if segment.trained)
    assert trained == "".join(
        t["content"] + "<|im_end|>" * (not t["cut"])
        for t in turns
        if t["role"] == "assistant" and t["learn"]
    )


@given(st.lists(TURN))
def test_control_segments_are_three_for_each_turn_whatever_its_content(turns: list[Turn]) -> None:
    assert sum(segment.control for segment in segments(turns)) == 3 * len(turns)


CALL: ToolCall = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
CALLING = Turn(role="assistant", content="", tool_calls=[CALL])


@pytest.mark.parametrize(
    ("turns", "found"),
    [
        ([Turn(role="tool", content="x")], "role 'tool'"),
        ([CALLING], "tool calls can not be rendered by ChatML"),
        (Turns([Turn(role="user", content="x")], tools=[{"name": "f"}]), "tools of a conversation"),
    ],
)
def test_what_the_template_does_not_have_can_not_be_rendered(turns: list[Turn], found: str) -> None:
    with pytest.raises(ValueError, match=found):
        render(turns)


@pytest.mark.parametrize(
    "roles",
    ["assistant", "system assistant", "user assistant", "system user assistant user assistant"],
)
def test_valid_shapes_pass(roles: str) -> None:
    result = [turn(role) for role in roles.split()]
    assert check_result(result) == result


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ("", "no turns"),
        ("system", "no assistant turn"),
        ("user", "no assistant turn"),
        ("user assistant user", "ends with a user turn"),
        ("assistant user assistant", "starts with an assistant turn"),
        ("user user assistant", "same role twice in a row"),
        ("user assistant assistant", "same role twice in a row"),
        ("user system assistant", "a system turn is not first"),
        ("system system user assistant", "a system turn is not first"),
        ("user narrator assistant", "unknown role 'narrator'"),
        ("user function_call", "tool calls are not read in this form (role 'function_call')"),
    ],
)
def test_other_shapes_are_rejected_by_name(roles: str, expected: str) -> None:
    assert reason([turn(role) for role in roles.split()]) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "content is not text (NoneType)"),
        (["a"], "content is not text (list)"),
        ("", "blank assistant turn"),
        (" \n", "blank assistant turn"),
        ("\ud800", "content is not valid Unicode"),
    ],
)
def test_contents_that_are_no_text_are_rejected_by_name(content: object, expected: str) -> None:
    assert reason([turn("user"), turn("assistant", content)]) == expected


@pytest.mark.parametrize("result", ["text", 5, {"role": "user"}, ["text"], [None]])
def test_anything_that_is_not_turns_is_rejected(result: object) -> None:
    assert "not a" in reason(result)


def test_none_counts_as_an_unspecified_rejection_and_a_rejection_stays_itself() -> None:
    assert reason(None) == "unspecified"
    assert reason(Reject("language")) == "language"


def test_other_keys_of_a_turn_do_not_get_in() -> None:
    result = [turn("user") | {"toxic": False}, turn("assistant") | {"tool_calls": None, "cut": 0}]
    assert check_result(result) == [turn("user"), turn("assistant")]


def test_what_a_normalizer_hands_on_unread_is_noted_obeyed_or_refused() -> None:
    spoken = turn("assistant") | {"weight": 0, "toxic": False, "timestamp": 5, "name": None}
    kept = check_result([turn("user"), spoken])
    assert isinstance(kept, Turns)
    assert kept == [turn("user"), turn("assistant") | {"learn": False}]
    named = [f"turn key {key!r} is not read" for key in ("toxic", "timestamp")]
    assert [*kept.notes] == ["turn flag 'weight': not learned", *named, UNLEARNED_NOTE]
    called = turn("assistant") | {"tool_results": ["5"]}
    lost = "tool calls are not read in this form (tool_results)"
    assert reason([turn("user"), called]) == lost


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("why</think>So.", "think block without a start"),
        ("<think>a<think>b</think>c</think>So.", "think blocks inside one another"),
        ("<think>a</think>So.</think>", "more than one think block"),
        ("<think>why", "think block without an end"),
        ("So. <think>why</think>", "think block that is not at the start"),
    ],
)
def test_marks_that_are_not_one_think_block_are_a_rejection(content: str, expected: str) -> None:
    assert reason([turn("user"), turn("assistant", content)]) == expected
    assert isinstance(check_result([turn("user", content), turn("assistant")]), Turns)


@pytest.mark.parametrize("flag", [{"train": False}, {"weight": 0.0}, {"loss": "false"}])
def test_a_flag_of_the_row_holds_for_all_of_its_turns(flag: dict[str, object]) -> None:
    kept = check_result([turn("user"), turn("assistant")], {"id": 3, **flag})
    assert kept == [turn("user"), turn("assistant") | {"learn": False}]
    both = check_result(pair("good", "bad"), flag)
    assert isinstance(both, Pair)
    assert not any(t.get("learn", True) for t in (*both.chosen, *both.rejected))
    assert both.notes and both.prompt == pair("good", "bad").prompt


def test_a_row_that_says_nothing_against_learning_changes_nothing() -> None:
    for row in ({}, {"weight": 1, "train": True, "loss": None}, {"training": "yes"}):
        kept = check_result([turn("user"), turn("assistant")], row)
        assert isinstance(kept, Turns) and kept.notes == ()
        assert kept == [turn("user"), turn("assistant")]
    measured = check_result([turn("user"), turn("assistant")], {"loss": 1.5, "weight": "x"})
    assert isinstance(measured, Turns)
    assert measured == [turn("user"), turn("assistant")] and len(measured.notes) == 2


def test_a_control_marker_in_a_content_is_noted_and_earlier_notes_are_kept() -> None:
    result = Turns([Turn(role="assistant", content="see <|im_end|>")], ["cut"])
    verdict = check_result(result)
    assert isinstance(verdict, Turns)
    assert verdict.notes == ("cut", MARKER_NOTE)


def pair(chosen: str, rejected: str, prompt: str = "p") -> Pair:
    return Pair(
        [Turn(role="user", content=prompt)],
        [Turn(role="assistant", content=chosen)],
        [Turn(role="assistant", content=rejected)],
    )


def test_a_pair_with_two_different_answers_passes() -> None:
    assert check_result(pair("good", "bad")) == pair("good", "bad")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (pair("same", "same"), "chosen equals rejected"),
        (pair("same", " same\n"), "chosen equals rejected"),
        (pair("good", " "), "blank assistant turn"),
        (pair("good", "bad", prompt=" "), "blank user turn"),
        (Pair([], [], []), "the prompt does not end with a user turn"),
        (Pair([Turn(role="user", content="p")], [], []), "no assistant turn"),
    ],
)
def test_other_pairs_are_rejected_by_name(wrong: Pair, expected: str) -> None:
    assert reason(wrong) == expected


RESULT = Turn(role="tool", content="", name="f", tool_call_id="1")
OFFERED = [{"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": 2}}}]


def test_a_conversation_with_tools_comes_back_with_all_that_they_said() -> None:
    talk = [Turn(role="user", content="q"), CALLING, RESULT, Turn(role="assistant", content="a")]
    kept = check_result(Turns(talk, tools=OFFERED), {"weight": 1.0})
    assert isinstance(kept, Turns) and kept == talk and kept.tools == OFFERED and not kept.notes
    unlearned = check_result(Turns(talk, tools=OFFERED), {"train": False})
    assert isinstance(unlearned, Turns) and unlearned.tools == OFFERED
    raw = [turn("user", "q"), turn("assistant", None) | {"function_call": {**CALL["function"]}}]
    assert reason([*raw, turn("tool", None)]) == "ends with a tool turn"
    assert check_result(raw) == [turn("user", "q"), CALLING]
    marked = [*talk[:2], RESULT | {"content": "x", "name": "<|im_end|>"}, talk[3]]
    noted = check_result(marked)
    assert isinstance(noted, Turns) and noted.notes == (MARKER_NOTE,)
    assert reason(Turns(talk, tools=[{"name": ""}, 5])) == "a tool is not an object (int)"


@pytest.mark.parametrize("key", ["tools", "functions"])
def test_tools_of_a_row_that_nobody_read_are_noted(key: str) -> None:
    talk = [turn("user"), turn("assistant")]
    for result in (Turns(talk), pair("good", "bad")):  # type: ignore[arg-type]
        noted = check_result(result, {key: OFFERED})
        assert not isinstance(noted, Reject) and noted.notes == (f"row key {key!r} is not read",)
    for row in ({key: "[]"}, {key: None}, {}):
        silent = check_result(Turns(talk), row)  # type: ignore[arg-type]
        assert isinstance(silent, Turns) and silent.notes == ()
    read = check_result(Turns(talk, tools=OFFERED), {key: OFFERED})  # type: ignore[arg-type]
    assert isinstance(read, Turns) and read.notes == ()


def test_a_pair_may_follow_a_result_and_differ_in_a_call() -> None:
    prompt = [Turn(role="user", content="q"), CALLING, RESULT]
    answer, other = Turn(role="assistant", content="a"), Turn(role="assistant", content="b")
    made = Pair(prompt, [answer], [other], tools=OFFERED)
    assert check_result(made) == made
    flagged = check_result(made, {"train": False})
    assert isinstance(flagged, Pair) and flagged.tools == OFFERED
    again: ToolCall = {"type": "function", "function": {"name": "f", "arguments": {"a": 2}}}
    calls = Pair(prompt[:1], [CALLING], [Turn(role="assistant", content="", tool_calls=[again])])
    assert check_result(calls) == calls
    same = Pair(prompt[:1], [CALLING], [Turn(role="assistant", content=" ", tool_calls=[CALL])])
    assert reason(same) == "chosen equals rejected"
    split = Pair([*prompt], [RESULT, answer], [RESULT, other])
    assert reason(split) == "a continuation begins with the result of a tool"


def test_kept_rows_say_whether_they_hold_reasoning() -> None:
    asked = Turn(role="user", content="<think>\nq")
    plain = check_result([asked, Turn(role="assistant", content="So.")])
    reasoned = check_result([asked, Turn(role="assistant", content="<think>\nhm\n</think>\n\nSo.")])
    assert isinstance(plain, Turns) and plain.notes == ()
    assert isinstance(reasoned, Turns) and reasoned.notes == ("has reasoning",)
