"""Verdicts: who won, what is wrong, what is flagged, what is not free."""

import pytest

from pipeline_lib.chat.conversation import Pair, Reject, Turns, check_result
from pipeline_lib.chat.preference_labels import (
    NO_CONTRAST,
    NO_RIVAL,
    SHORTENED,
    first_answers,
    flagged,
    noncommercial,
    paired,
    ranked,
    wrong_answer,
)
from pipeline_lib.chat.turns import assistant, user
from pipeline_lib.records import Turn


def test_the_winner_comes_first_and_a_tie_is_a_rejection() -> None:
    sides = {"model_a": "a", "model_b": "b"}
    assert ranked("model_a", sides) == ("a", "b")
    assert ranked("model_b", sides) == ("b", "a")
    for winner in ("tie", "tie (bothbad)", None, "model_c"):
        with pytest.raises(Reject, match="no winner"):
            ranked(winner, sides)


def test_what_follows_the_first_answers_is_cut_with_a_note() -> None:
    long = Pair([user("q")], [assistant("x"), user("more"), assistant("z")], [assistant("y")])
    assert first_answers(long) == Pair(
        [user("q")], [assistant("x")], [assistant("y")], (SHORTENED,)
    )
    short = Pair([user("q")], [assistant("x")], [assistant("y")], ("note",))
    assert first_answers(short) == short


BEST = Turns([user("q"), assistant("x"), user("r"), assistant("y")], ["note"])


def test_two_talks_that_differ_in_their_last_answer_make_a_pair_with_the_rest_as_prompt() -> None:
    result = paired(BEST, Turns([*BEST[:3], assistant("z")]))
    assert result == Pair(BEST[:3], [assistant("y")], [assistant("z")], ("note",))
    assert check_result(result) == result


@pytest.mark.parametrize(
    ("worse", "note"),
    [
        ([*BEST[:3], assistant(" y\n")], NO_CONTRAST),
        ([*BEST[:3], assistant(" ")], NO_RIVAL),
        ([*BEST[:1], assistant("z")], NO_RIVAL),
        ([user("other"), *BEST[1:3], assistant("z")], NO_RIVAL),
        ([*BEST, user("s"), assistant("z")], NO_RIVAL),
        ([], NO_RIVAL),
    ],
)
def test_without_a_pair_the_better_talk_stays_whole_and_the_reason_is_noted(
    worse: list[Turn], note: str
) -> None:
    kept = paired(BEST, Turns(worse))
    assert isinstance(kept, Turns)
    assert (kept, kept.notes) == (BEST, ("note", note))


def test_labels_keep_the_tools_of_a_talk_and_compare_its_calls() -> None:
    offered = [{"type": "function", "function": {"name": "f"}}]
    calls: list[Turn] = [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": {"name": name, "arguments": {}}}],
        }
        for name in ("f", "g")
    ]
    better, worse = (Turns([user("q"), turn], (), offered) for turn in calls)
    assert paired(better, worse) == Pair([user("q")], [calls[0]], [calls[1]], (), offered)
    for other, note in ((better, NO_CONTRAST), (Turns(worse), NO_RIVAL)):
        kept = paired(better, other)
        assert isinstance(kept, Turns)
        assert (kept.tools, kept.notes) == (offered, (note,))
    result = Turn(role="tool", content="")
    long = Pair([user("q")], [calls[0], result, assistant("x")], [calls[1]], (), offered)
    assert first_answers(long) == Pair([user("q")], [calls[0]], [calls[1]], (SHORTENED,), offered)


@pytest.mark.parametrize(
    ("finished", "verify", "llama", "expected"),
    [
        ([True, True], [True, False], None, "b"),
        ([True, True], [False, False], None, "a"),
        ([True, False], [True, False], None, None),
        ([True, True], [True, False], [None, True], None),
        ([True, True], None, [True, False], "b"),
        ([True, True], None, None, None),
        (None, [False, False], None, None),
        ([True], [False], [], "a"),
    ],
)
def test_a_wrong_answer_is_finished_and_judged_wrong_by_all_who_judged(
    finished: list[bool] | None,
    verify: list[bool | None] | None,
    llama: list[bool | None] | None,
    expected: str | None,
) -> None:
    assert wrong_answer(["a", "b"], finished, verify, llama) == expected
    assert wrong_answer(None, finished, verify, llama) is None


def test_a_flag_is_found_in_every_shape_of_a_moderation() -> None:
    one, other = {"flagged": True}, {"flagged": False}
    assert flagged(one) and flagged([other, one]) and flagged({"flagged": [False, True]})
    assert not any(map(flagged, (other, [other], [], None, {}, {"flagged": None})))


def test_licences_that_forbid_commerce_are_known_by_name() -> None:
    assert noncommercial("CC-BY-NC-4.0") and noncommercial("CC BY-NC-SA 4.0")
    assert noncommercial("Non-Commercial use only")
    assert not any(map(noncommercial, ("MIT", "CC BY-SA 4.0", "ncsa", "", None)))
