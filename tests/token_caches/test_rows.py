"""Rows of one width: boundaries, the three rules for what is too long, and pairs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_world import control_id, in_row, stored_conversations, tokenizer, turns
from hypothesis import given, settings
from hypothesis import strategies as st
from row_tables import RowTable, row_table

from pipeline_lib.chat.conversation import Pair
from pipeline_lib.chat.store import ConversationBatch
from pipeline_lib.chat.store_format import in_columns
from pipeline_lib.chat.synthetic_rejections import with_rejected
from pipeline_lib.records import Turn, TurnBatch
from pipeline_lib.templates.chatml import render
from pipeline_lib.templates.encoding import TOOLS, Template, template_for
from pipeline_lib.token_caches import rows
from pipeline_lib.token_caches.fitted import (
    CUT,
    EQUAL,
    NO_OTHER_ORDER,
    NO_PROMPT,
    NO_TARGET,
    NOTHING,
    TOO_LONG,
    OverLength,
    check_over_length,
)
from pipeline_lib.tokenization.control_tokens import IM_END, PAD


@pytest.fixture(scope="module")
def template() -> Template:
    return template_for(tokenizer())


def conversation_batch(*results: Any) -> ConversationBatch:
    """A batch as a store would give it."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        train = stored_conversations(Path(folder), {"one": list(results)}).train
        return train.read(np.arange(len(train)))


def unstored_batch(chats: list[list[Turn]]) -> ConversationBatch:
    """The same of plain conversations, without a store, which takes long."""
    nothing = in_columns(in_row([]) for _ in chats)
    number = np.zeros(len(chats), np.int64)
    whole = in_columns(map(in_row, chats))
    return ConversationBatch(whole, nothing, number.astype(np.int32), number)


def sft_rows(template: Template, batch: TurnBatch, width: int, rule: OverLength) -> RowTable:
    """The rows that a data set has."""
    pad = control_id(PAD)
    return row_table(lambda dropped: rows.sft_rows(template, batch, dropped), width, rule, pad)


def dpo_rows(
    template: Template, batch: ConversationBatch, width: int, rule: OverLength
) -> RowTable:
    """The same of pairs."""
    pad = control_id(PAD)
    return row_table(lambda dropped: rows.dpo_rows(template, batch, dropped), width, rule, pad)


def decoded(ids: Any, length: int) -> str:
    return tokenizer().decode(ids[:length].tolist())


def row_length(template: Template, *conversation: Turn) -> int:
    return int(
        sft_rows(template, conversation_batch(list(conversation)).turns, 4_000, "drop").lengths[0]
    )


def prompt_length(template: Template, question: str) -> int:
    """Tokens up to the mark in front of the answer."""
    return row_length(template, *turns(question, "x")) - 2


def flagged_rows(fitted: RowTable) -> dict[str, list[int]]:
    return {
        name: np.flatnonzero(flags).tolist() for name, flags in fitted.flags.items() if flags.any()
    }


SHORT = turns("Hi", "Yo")
LONG = [Turn(role="system", content="s"), *turns("first", "one", "second", "two", "third", "three")]


@pytest.mark.parametrize(("spare", "kept"), [(-1, False), (0, True), (1, True)])
def test_a_row_may_be_exactly_as_long_as_the_width(
    template: Template, spare: int, kept: bool
) -> None:
    width = row_length(template, *SHORT) + spare
    fitted = sft_rows(template, conversation_batch(SHORT).turns, width, "drop")
    assert fitted.kept.tolist() == [kept]
    assert flagged_rows(fitted) == ({} if kept else {TOO_LONG: [0]})
    if kept:
        assert fitted.ids[0, width - spare - 1] == control_id(IM_END)
        assert fitted.mask[0, width - spare - 1] == 1
        assert fitted.ids[0, width - spare :].tolist() == [control_id(PAD)] * spare
        assert fitted.mask[0, width - spare :].sum() == 0


def test_truncate_turns_drops_the_oldest_and_keeps_the_system_turn(template: Template) -> None:
    expected = [LONG[0], *LONG[3:]]
    width = row_length(template, *expected)
    fitted = sft_rows(template, conversation_batch(SHORT, LONG).turns, width, "truncate_turns")
    assert decoded(fitted.ids[1], fitted.lengths[1]) == render(expected)
    assert flagged_rows(fitted) == {CUT: [1]}
    fitted = sft_rows(
        template,
        conversation_batch(LONG).turns,
        row_length(template, LONG[0], *LONG[5:]) - 1,
        "truncate_turns",
    )
    assert flagged_rows(fitted) == {TOO_LONG: [0]}


def test_truncate_right_cuts_the_end_and_drops_what_has_no_target(template: Template) -> None:
    width = row_length(template, *SHORT)
    long_answer, long_question = turns("Hi", "Yo " * 50), turns("Hi " * 50, "Yo")
    batch = conversation_batch(SHORT, long_answer, long_question)
    fitted = sft_rows(template, batch.turns, width, "truncate_right")
    assert fitted.kept.tolist() == [True, True, False]
    assert flagged_rows(fitted) == {CUT: [1], NO_TARGET: [2]}
    assert fitted.lengths.tolist() == [width, width]
    assert fitted.mask.any(axis=1).all()


LINE = st.text("ab \n", min_size=1, max_size=12).filter(str.strip)
CHATS = st.lists(st.lists(LINE, min_size=1, max_size=3), min_size=1, max_size=4)


@settings(max_examples=60)
@given(
    lines=CHATS,
    width=st.integers(1, 60),
    rule=st.sampled_from(["drop", "truncate_turns", "truncate_right"]),
)
def test_every_row_learns_something_and_every_conversation_is_accounted_for(
    template: Template, lines: list[list[str]], width: int, rule: OverLength
) -> None:
    chats = [[t for line in chat for t in turns(line, line)] for chat in lines]
    fitted = sft_rows(template, unstored_batch(chats).turns, width, rule)
    assert len(fitted.ids) == fitted.kept.sum()
    lost = fitted.flags[TOO_LONG].astype(int) + fitted.flags[NO_TARGET] + fitted.kept
    assert lost.tolist() == [1] * len(chats)
    for row, place in enumerate(np.flatnonzero(fitted.kept)):
        length = int(fitted.lengths[row])
        assert fitted.mask[row].any()
        assert fitted.mask[row, length:].sum() == 0
        shown, whole = decoded(fitted.ids[row], length), render(chats[place])
        assert whole.startswith(shown) if rule == "truncate_right" else whole.endswith(shown)


def pair(prompt: str, chosen: str, rejected: str) -> Pair:
    return Pair(turns(prompt), turns(chosen, first="assistant"), turns(rejected, first="assistant"))


def test_both_sides_of_a_pair_share_the_prompt_and_are_trained_behind_it(
    template: Template,
) -> None:
    fitted = dpo_rows(template, conversation_batch(pair("Pick.", "Fine!", "Fine?")), 60, "drop")
    prompt = render([*turns("Pick.")]) + "<|im_start|>assistant<|im_sep|>"
    for side, answer in enumerate(("Fine!", "Fine?")):
        ids, mask = fitted.ids[0, side], fitted.mask[0, side]
        assert decoded(ids, fitted.lengths[0, side]) == prompt + answer + IM_END
        assert tokenizer().decode(ids[mask == 1].tolist()) == answer + IM_END
    assert fitted.ids.dtype == fitted.lengths.dtype == np.int32


def test_assistant_turns_of_the_prompt_are_not_trained(template: Template) -> None:
    shared = turns("q", "earlier", "more")
    preference = Pair(
        shared, turns("x", "n", "y", first="assistant"), turns("z", first="assistant")
    )
    fitted = dpo_rows(template, conversation_batch(preference), 200, "drop")
    sides = [
        tokenizer().decode(i[m == 1].tolist())
        for i, m in zip(fitted.ids[0], fitted.mask[0], strict=True)
    ]
    assert sides == [f"x{IM_END}y{IM_END}", f"z{IM_END}"]


def test_a_pair_is_dropped_if_either_side_is_too_long(template: Template) -> None:
    batch = conversation_batch(
        pair("p", "short", "x " * 90), pair("p", "x " * 90, "short"), pair("p", "a", "b")
    )
    fitted = dpo_rows(template, batch, 60, "drop")
    assert fitted.kept.tolist() == [False, False, True]
    assert flagged_rows(fitted) == {TOO_LONG: [0, 1]}


@pytest.mark.parametrize("longer", [0, 1])
@pytest.mark.parametrize(("spare", "kept"), [(-1, False), (0, True), (1, True)])
def test_the_longer_side_of_a_pair_may_be_exactly_as_long_as_the_width(
    template: Template, longer: int, spare: int, kept: bool
) -> None:
    answers = ["short", "x y z " * 5]
    preference = pair("p", *(answers if longer else answers[::-1]))
    width = row_length(template, *turns("p", answers[1])) + spare
    for rule in ("drop", "truncate_turns"):
        fitted = dpo_rows(template, conversation_batch(preference), width, rule)  # type: ignore[arg-type]
        assert fitted.kept.tolist() == [kept]
        assert flagged_rows(fitted) == ({} if kept else {TOO_LONG: [0]})
        if kept:
            assert fitted.lengths[0, longer] == width - spare > fitted.lengths[0, 1 - longer]
            assert fitted.ids[0, longer, width - spare - 1] == control_id(IM_END)
            assert fitted.mask[0, longer, width - spare - 1] == 1
    cut = dpo_rows(template, conversation_batch(preference), width, "truncate_right")
    assert flagged_rows(cut) == ({} if kept else {CUT: [0]})
    assert cut.lengths[0, longer] == min(width, width - spare)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [("drop", TOO_LONG), ("truncate_turns", TOO_LONG), ("truncate_right", NO_TARGET)],
)
@pytest.mark.parametrize("spare", [-20, -1, 0])
def test_a_prompt_as_long_as_the_width_leaves_nothing_to_learn(
    template: Template, rule: OverLength, reason: str, spare: int
) -> None:
    question = "why " * 30
    width = prompt_length(template, question) + spare
    chat, preference = turns(question, "So be it."), pair(question, "So.", "No.")
    assert flagged_rows(sft_rows(template, conversation_batch(chat).turns, width, rule)) == {
        reason: [0]
    }
    assert flagged_rows(dpo_rows(template, conversation_batch(preference), width, rule)) == {
        reason: [0]
    }


def test_one_token_behind_the_prompt_is_enough_to_learn_from(template: Template) -> None:
    width = prompt_length(template, "why?") + 1
    fitted = sft_rows(
        template, conversation_batch(turns("why?", "So.")).turns, width, "truncate_right"
    )
    assert (fitted.mask.sum(), fitted.mask[0, -1]) == (1, 1)
    pairs = conversation_batch(pair("why?", "So.", "No."), pair("why?", "So.", "So?"))
    fitted = dpo_rows(template, pairs, width, "truncate_right")
    assert flagged_rows(fitted) == {CUT: [0], EQUAL: [1]}
    assert fitted.mask.sum(axis=2).tolist() == [[1, 1]]


def test_pairs_that_are_equal_after_a_cut_or_lost_their_answers_are_dropped(
    template: Template,
) -> None:
    same, far = "k " * 90, "q " * 90
    batch = conversation_batch(
        pair("p", same + "A", same + "B"), pair(far, "a", "b"), pair("p", "Fine!", "Fine?")
    )
    fitted = dpo_rows(template, batch, 60, "truncate_right")
    assert flagged_rows(fitted) == {EQUAL: [0], NO_TARGET: [1]}
    assert fitted.kept.tolist() == [False, False, True]


@pytest.mark.parametrize("silent", ["chosen", "rejected", "both", "none"])
def test_a_pair_is_kept_only_if_both_of_its_sides_learn(template: Template, silent: str) -> None:
    """A side without an assistant turn has nothing to learn; no store lets one in."""
    roles = ["user" if silent in (side, "both") else "assistant" for side in ("chosen", "rejected")]
    chosen = [Turn(role="user", content="Pick."), Turn(role=roles[0], content="Fine!")]
    batch = ConversationBatch(
        in_columns([in_row(chosen)]),
        in_columns([in_row([Turn(role=roles[1], content="Fine?")])]),
        np.array([1], np.int32),
        np.zeros(1, np.int64),
    )
    fitted = dpo_rows(template, batch, 60, "drop")
    assert flagged_rows(fitted) == ({} if silent == "none" else {NOTHING: [0]})
    assert len(fitted.ids) == fitted.kept.sum() == (silent == "none")


def test_truncate_turns_shortens_the_prompt_of_both_sides_alike(template: Template) -> None:
    preference = Pair([*LONG[:6]], turns("x", first="assistant"), turns("y z w", first="assistant"))
    kept = [LONG[0], *LONG[5:6]]
    width = row_length(template, *kept, *turns("y z w", first="assistant"))
    fitted = dpo_rows(template, conversation_batch(preference), width, "truncate_turns")
    assert decoded(fitted.ids[0, 0], fitted.lengths[0, 0]) == render([*kept, *preference.chosen])
    assert decoded(fitted.ids[0, 1], fitted.lengths[0, 1]) == render([*kept, *preference.rejected])
    assert flagged_rows(fitted) == {CUT: [0]}
    assert flagged_rows(
        dpo_rows(template, conversation_batch(preference), width - 1, "truncate_turns")
    ) == {TOO_LONG: [0]}


def test_conversations_that_can_have_no_pair_are_counted(template: Template) -> None:
    batch = with_rejected(
        conversation_batch(
            turns("a text", first="assistant"), turns("q", "word"), SHORT + turns("q", "b c")
        )
    )
    fitted = dpo_rows(template, batch, 100, "drop")
    assert flagged_rows(fitted) == {NO_PROMPT: [0], NO_OTHER_ORDER: [1]}
    assert fitted.kept.tolist() == [False, False, True]


@settings(max_examples=40)
@given(
    lines=CHATS,
    width=st.integers(1, 80),
    rule=st.sampled_from(["drop", "truncate_turns", "truncate_right"]),
)
def test_kept_pairs_share_their_prompt_and_differ_behind_it(
    template: Template, lines: list[list[str]], width: int, rule: OverLength
) -> None:
    chats = [[t for line in chat for t in turns(line, line)] for chat in lines]
    fitted = dpo_rows(template, with_rejected(unstored_batch(chats)), width, rule)
    for ids, mask in zip(fitted.ids, fitted.mask, strict=True):
        prompt = int(np.argmax(mask[0]))
        assert prompt == int(np.argmax(mask[1]))
        assert (ids[0, :prompt] == ids[1, :prompt]).all()
        assert (ids[0] != ids[1]).any()
    accounted = sum(flags.astype(int) for name, flags in fitted.flags.items() if name != CUT)
    assert (accounted + fitted.kept).tolist() == [1] * len(chats)


def silenced(conversation: list[Turn], *places: int) -> list[Turn]:
    """The conversation, of which the turns at these places are not to be learned."""
    return [{**t, "learn": False} if i in places else t for i, t in enumerate(conversation)]


def test_loss_falls_on_no_turn_that_is_not_to_be_learned(template: Template) -> None:
    chat = turns("q", "BAD", "no", "good")
    fitted = sft_rows(template, conversation_batch(silenced(chat, 1)).turns, 200, "drop")
    assert decoded(fitted.ids[0][fitted.mask[0] == 1], 200) == f"good{IM_END}"
    assert fitted.lengths[0] == row_length(template, *chat)


def test_a_conversation_without_a_turn_to_learn_is_left_out_and_counted(
    template: Template,
) -> None:
    chats = [silenced(turns("q", "BAD"), 1), turns("q", "good"), silenced(turns("q", "b" * 99), 1)]
    for rule in ("drop", "truncate_turns", "truncate_right"):
        fitted = sft_rows(template, conversation_batch(*chats).turns, 40, rule)
        assert flagged_rows(fitted) == {NOTHING: [0, 2]}
        assert fitted.kept.tolist() == [False, True, False]


def test_a_pair_with_a_side_that_is_not_to_be_learned_is_left_out(template: Template) -> None:
    good, bad = turns("good", first="assistant"), turns("bad", first="assistant")
    pairs = [
        Pair(turns("q"), silenced(good, 0), bad),
        Pair(turns("q"), good, silenced(bad, 0)),
        silenced(turns("q", "one two three"), 1),
        silenced(turns("q", "one two", "r", "three four five"), 1),
    ]
    fitted = dpo_rows(template, with_rejected(conversation_batch(*pairs)), 200, "drop")
    assert flagged_rows(fitted) == {NOTHING: [0, 1, 2]}
    assert fitted.kept.tolist() == [False, False, False, True]


def test_no_conversations_give_no_rows(template: Template) -> None:
    empty = in_columns([])
    batch = ConversationBatch(empty, empty, np.empty(0, np.int32), np.empty(0, np.int64))
    assert sft_rows(template, empty, 8, "drop").ids.shape == (0, 8)
    assert dpo_rows(template, with_rejected(batch), 8, "truncate_turns").ids.shape == (0, 2, 8)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="over_length is 'left'"):
        check_over_length("left")


def test_of_many_pairs_each_has_its_own_turns_in_their_order(template: Template) -> None:
    pairs = [
        Pair(
            turns(*(f"{number} {place}" for place in range(2 * (number % 4) + 1))),
            turns(f"good {number}", "and", "so", first="assistant"),
            turns(f"bad {number}", first="assistant"),
        )
        for number in range(60)
    ]
    fitted = dpo_rows(template, conversation_batch(*pairs), 400, "drop")
    for (chosen, rejected), lengths, made in zip(fitted.ids, fitted.lengths, pairs, strict=True):
        assert decoded(chosen, lengths[0]) == render([*made.prompt, *made.chosen])
        assert decoded(rejected, lengths[1]) == render([*made.prompt, *made.rejected])


def test_a_conversation_with_a_turn_that_can_not_be_used_has_no_row_and_says_why(
    template: Template,
) -> None:
    result = Turn(role="tool", content="It rains.", name="weather")
    chats = [turns("q", "a"), [*turns("q", "a"), result], turns("q", "a")]
    batch = unstored_batch(chats)  # type: ignore[arg-type]
    made = sft_rows(template, batch.turns, 90, "drop")
    assert flagged_rows(made) == {TOOLS: [1]}
    assert made.kept.tolist() == [True, False, True]
    assert TOOLS not in sft_rows(template, unstored_batch(chats[:1]).turns, 90, "drop").flags
