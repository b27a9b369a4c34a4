"""The tools of normalizers: what they read, cut, merge and drop, and that they say so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.conversation import Pair, Reject, Turns, check_result
from pipeline_lib.chat.thoughts import thought
from pipeline_lib.chat.turn_order import NO_ANSWER, NO_CALL, NO_RESULT
from pipeline_lib.chat.turns import (
    IMPLIED,
    assistant,
    canonical_thoughts,
    cut_bytes,
    dialogue,
    document,
    preference,
    tidy,
    user,
)
from pipeline_lib.records import ToolCall, Turn

ROLE = {"u": "user", "a": "assistant", "s": "system", "c": "assistant", "t": "tool"}
OFFERED = [{"type": "function", "function": {"name": "f"}}]


def call(name: str) -> ToolCall:
    return {"type": "function", "function": {"name": name, "arguments": {}}}


def spelled(letters: str) -> Turns:
    """Turns by letter; a capital letter is a blank turn, ``c`` an assistant's that calls a tool."""
    turns = [
        Turn(role=ROLE[c.lower()], content=" " if c.isupper() else f"{c}{i}")
        for i, c in enumerate(letters)
    ]
    for i, turn in enumerate(turns):
        if letters[i] in "cC":
            turn["tool_calls"] = [call(f"f{i}")]
    return Turns(turns, tools=OFFERED)


def letters(turns: list[Turn]) -> str:
    return "".join("c" if "tool_calls" in turn else turn["role"][0] for turn in turns)


@pytest.mark.parametrize(
    ("given_turns", "expected"),
    [
        ("uaua", "uaua"),
        ("uauu", "ua"),
        ("uua", "ua"),
        ("aua", "ua"),
        ("saua", "sua"),
        ("Sua", "ua"),
        ("ssua", "sua"),
        ("uauA", "ua"),
        ("uaUa", "ua"),
        ("uaas", "ua"),
        ("uctaua", "uctaua"),
        ("uCTa", "ucta"),
        ("uctct", "uctc"),
        ("uctu", "uc"),
        ("ctua", "ua"),
        ("tua", "ua"),
        ("uacta", "ucta"),
        ("uaCtta", "uctta"),
        ("uCCta", "ucta"),
        ("uctaa", "ucta"),
    ],
)
def test_tidy_leaves_a_conversation_that_passes_the_check(given_turns: str, expected: str) -> None:
    tidied = tidy(spelled(given_turns))
    assert letters(tidied) == expected
    assert isinstance(check_result(tidied), Turns)


@pytest.mark.parametrize("nothing", ["", "u", "su", "uA", "Ua", "a", "A"])
def test_what_leaves_no_answered_turn_is_rejected(nothing: str) -> None:
    with pytest.raises(Reject, match="no assistant turn"):
        tidy(spelled(nothing))


@given(st.text("uasctUASCT", max_size=8))
def test_tidy_gives_turns_that_pass_or_a_named_reason(given_turns: str) -> None:
    try:
        result = check_result(tidy(spelled(given_turns)))
    except Reject:
        return
    # a system turn in the middle, or calls and results that do not belong together
    misplaced = ("a system turn is not first", "starts with an assistant turn")
    assert isinstance(result, Turns) or result.reason in (*misplaced, NO_CALL, NO_RESULT, NO_ANSWER)


def test_every_repair_leaves_a_note() -> None:
    notes = tidy(spelled("auuauU")).notes
    assert notes == (
        "cut at a blank turn",
        "dropped a leading assistant turn",
        "merged turns of one role",
        "dropped a trailing user turn",
    )
    assert tidy(spelled("ua")).notes == ()


def test_neighbours_of_one_role_are_merged_with_a_blank_line_or_rejected() -> None:
    assert tidy(spelled("uua"))[0]["content"] == "u0\n\nu1"
    with pytest.raises(Reject, match="same role"):
        tidy(spelled("uua"), same_role="reject")


def test_calls_of_neighbours_become_calls_of_one_turn_after_its_text() -> None:
    (_, merged, *_) = tidy(spelled("uaCCta"))
    assert merged == assistant("a1") | {"tool_calls": [call("f2"), call("f3")]}
    silent = Turns([user("q"), assistant("x") | {"learn": False}, *spelled("Ct"), assistant("y")])
    assert tidy(silent)[1].get("learn") is False
    apart = spelled("ucata")
    assert [*tidy(apart)] == [*apart]
    with pytest.raises(Reject, match="same role"):
        tidy(spelled("uaCta"), same_role="reject")
    assert [*tidy(spelled("uctta"), same_role="reject")] == [*spelled("uctta")]


def test_every_repair_of_a_talk_with_tools_leaves_a_note_and_keeps_the_tools() -> None:
    tidied = tidy(spelled("tuaCtt"))
    assert tidied.tools == OFFERED and letters(tidied) == "uc"
    assert tidied.notes == (
        "dropped a leading tool turn",
        "merged turns of one role",
        "dropped a trailing tool turn",
    )


def test_who_speaks_first_is_the_user_and_names_decide_the_rest() -> None:
    spoken = dialogue(["1", "2", "3", "4"], ["Ann", "Bob", "Bob", "Ann"])
    assert letters(spoken) == "uaau"
    assert letters(dialogue(["1", "2", "3"])) == "uau"


def test_a_third_speaker_is_a_rejection_and_a_missing_name_a_note() -> None:
    with pytest.raises(Reject, match="two speakers"):
        dialogue(["1", "2", "3"], ["Ann", "Bob", "Eve"])
    spoken = dialogue(["1", "2", "3"], ["Ann", "Bob"])
    assert letters(spoken) == "ua"
    assert spoken.notes == ("speakers and utterances differ in number",)


CANONICAL = "<think>\nwhy\n</think>\n\nYes."


@pytest.mark.parametrize(
    "content",
    [
        CANONICAL,
        "<think>why</think>Yes.",
        " <thought>why</thought> Yes.",
        "<|begin_of_thought|>\n\nwhy\n\n<|end_of_thought|>\n\n"
        "<|begin_of_solution|>\n\nYes.\n\n<|end_of_solution|>",
        "<|begin_of_thought|>why<|end_of_thought|><|begin_of_solution|>Yes.",
    ],
)
def test_think_blocks_of_every_spelling_take_one_form(content: str) -> None:
    assert canonical_thoughts(Turns([assistant(content)])) == [assistant(CANONICAL)]


def test_an_empty_think_block_goes_and_an_open_one_is_a_rejection() -> None:
    assert canonical_thoughts(Turns([assistant("<think>\n</think> Yes.")])) == [assistant("Yes.")]
    assert canonical_thoughts(Turns([user("<think>q")])) == [user("<think>q")]
    with pytest.raises(Reject, match="without an end"):
        canonical_thoughts(Turns([assistant("<think>why")]))


def test_a_block_whose_start_is_in_the_prompt_is_read_and_noted() -> None:
    read = canonical_thoughts(Turns([user("q"), assistant("why\n</think>\n\nYes.")], ["kept"]))
    assert read == [user("q"), assistant(CANONICAL)]
    assert read.notes == ("kept", IMPLIED)


def test_no_repair_makes_a_turn_learned_that_is_not_to_be() -> None:
    bad = assistant("BAD") | {"learn": False}
    merged = tidy(Turns([user("q"), assistant("x"), bad, user("r"), bad, assistant("y")]))
    assert [turn.get("learn", True) for turn in merged] == [True, False, True, False]
    canonical = canonical_thoughts(Turns([user("q"), bad]))
    assert canonical == [user("q"), bad]


def test_what_a_data_set_says_of_a_turn_does_not_make_another_prompt() -> None:
    start = [user("q"), assistant("a"), user("r")]
    flagged = [start[0], start[1] | {"learn": False}, start[2]]
    pair = preference(Turns([*start, assistant("x")]), Turns([*flagged, assistant("y")]))
    assert (len(pair.prompt), pair.chosen, pair.rejected) == (3, [assistant("x")], [assistant("y")])


def test_reasoning_without_an_answer_is_not_an_answer() -> None:
    assert thought("why", " \n") == " \n"
    assert canonical_thoughts(Turns([assistant("<think>why</think>\n")])) == [assistant("")]


def test_the_prompt_of_a_pair_is_the_longest_common_start() -> None:
    shared = [user("q"), assistant("a"), user("more")]
    result = preference(Turns([*shared, assistant("x")]), Turns([*shared, assistant("y")]))
    assert result == Pair(shared, [assistant("x")], [assistant("y")])


def test_sides_that_part_at_a_user_turn_keep_their_common_answer() -> None:
    left = Turns([user("q"), assistant("a"), user("l"), assistant("x")])
    right = Turns([user("q"), assistant("a"), user("r"), assistant("y")])
    result = preference(left, right)
    assert result.prompt == [user("q")]
    assert isinstance(check_result(result), Pair)


def sides(left: str, right: str) -> Pair:
    """The pair of two talks; letters at one place are equal turns."""
    return preference(spelled(left), spelled(right))


def test_a_prompt_may_end_with_a_result_and_never_between_results() -> None:
    shared = spelled("uct")
    pair = preference(
        Turns([*shared, assistant("x")], tools=OFFERED),
        Turns([*shared, assistant("y")], tools=OFFERED),
    )
    assert pair == Pair([*shared], [assistant("x")], [assistant("y")], (), OFFERED)
    assert check_result(pair) == pair
    assert [len(sides(*both).prompt) for both in (("uctta", "uctaa"), ("uctta", "ucta"))] == [1, 1]
    assert len(sides("uctcta", "uctaua").prompt) == 3
    other = spelled("ucta")
    other[1]["tool_calls"] = [call("g")]
    assert len(preference(spelled("ucta"), other).prompt) == 1


def test_sides_that_were_offered_different_tools_are_rejected() -> None:
    with pytest.raises(Reject, match="different tools"):
        preference(spelled("ua"), Turns([user("u0"), assistant("y")]))


def test_equal_sides_and_sides_without_a_common_start_are_rejected() -> None:
    side = Turns([user("q"), assistant("a")])
    equal = check_result(preference(side, side))
    assert isinstance(equal, Reject)
    assert equal.reason == "chosen equals rejected"
    with pytest.raises(Reject, match="no common prompt"):
        preference(side, Turns([user("other"), assistant("a")]))


@given(st.text(), st.integers(0, 40))
def test_a_cut_is_the_longest_start_of_whole_characters(text: str, limit: int) -> None:
    cut = cut_bytes(text, limit)
    assert text.startswith(cut)
    assert len(cut.encode()) <= limit or cut == text
    longer = text[: len(cut) + 1]
    assert longer == cut or len(longer.encode()) > limit


def test_a_document_is_one_assistant_turn_and_its_cut_is_noted() -> None:
    assert document("text") == [assistant("text")]
    assert document("text").notes == ()
    assert document("aé", max_bytes=2) == [assistant("a") | {"cut": True}]
    assert document("aé", max_bytes=2).notes == ("cut to 2 bytes",)
    with pytest.raises(Reject, match="blank"):
        document(" \n")
