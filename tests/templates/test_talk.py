"""A conversation tells its roles and where it may be learned without making its turns."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from chat_world import TOOL, turns

from pipeline_lib.records import LEARN_ALL, LEARN_CONTENT, LEARN_END, ROLES, Turn, learn_bits
from pipeline_lib.templates.talk import Talk, Tools, Turns, kinds_of

LONG = [
    Turn(role="system", content="s"),
    Turn(role="user", content="q"),
    Turn(role="assistant", content="whole"),
    Turn(role="assistant", content="silent", learn=False),
    Turn(role="assistant", content="cut", cut=True),
    Turn(role="assistant", content="silent and cut", learn=False, cut=True),
    Turn(role="user", content="r", learn=True, cut=False),
]


class Maker:
    """Makes turns, and counts how often it is asked."""

    def __init__(self, made: Turns, tools: Tools = None) -> None:
        self.made, self.tools, self.asked = made, tools, 0

    def __call__(self) -> tuple[Turns, Tools]:
        self.asked += 1
        return self.made, self.tools


def stored(made: Turns, tools: Tools = None, *, plain: bool = True) -> tuple[Talk, Maker]:
    """The conversation as one that is read from columns."""
    roles = np.array([ROLES.index(turn["role"]) for turn in made], np.int8)
    learn = np.array([learn_bits(turn) for turn in made], np.int8)
    make = Maker(made, tools)
    contents = [turn["content"] for turn in made]
    return Talk(contents, kinds_of(roles, learn), plain, make), make


def told(talk: Talk) -> tuple[Any, ...]:
    """All that a conversation tells."""
    flags = (len(talk), talk.contents, talk.kinds, talk.plain, talk.roles, talk.silent, talk.cut)
    return (*flags, [*talk.turns], talk.tools)


def test_a_kind_is_a_byte_of_the_role_and_the_bits_of_what_is_learned() -> None:
    every = [*product(range(len(ROLES)), (0, LEARN_CONTENT, LEARN_END, LEARN_ALL))]
    roles, learn = (np.array(side, np.int8) for side in zip(*every, strict=True))
    assert kinds_of(roles, learn) == bytes(role + 16 * bits for role, bits in every)
    assert kinds_of(np.array([2], np.int8), np.array([-1], np.int8)) == bytes([2 + 16 * LEARN_ALL])


def test_roles_and_what_is_not_learned_are_told_by_the_kinds_alone() -> None:
    talk, make = stored(LONG)
    assert (len(talk), talk.roles) == (7, [turn["role"] for turn in LONG])
    assert (talk.silent, talk.cut) == ([3, 5], [4])
    assert talk.tools is None
    assert make.asked == 0


def test_turns_are_made_once_when_something_asks_for_them() -> None:
    talk, make = stored(LONG, [TOOL], plain=False)
    assert make.asked == 0
    assert [talk.turns, talk.tools, talk.turns, talk.tools] == [LONG, [TOOL], LONG, [TOOL]]
    assert make.asked == 1


def test_a_conversation_of_columns_is_the_one_of_its_turns() -> None:
    assert told(stored(LONG)[0]) == told(Talk.of(LONG))
    assert told(stored(LONG, [TOOL], plain=False)[0]) == told(Talk.of(LONG, [TOOL]))


@pytest.mark.parametrize("field", ["name", "tool_call_id", "tool_calls"])
def test_only_without_tools_and_their_fields_a_conversation_is_plain(field: str) -> None:
    assert Talk.of(LONG).plain
    assert not Talk.of(LONG, []).plain
    more: Any = {"role": "assistant", "content": "x", field: "f"}
    assert not Talk.of([*LONG, more]).plain


@pytest.mark.parametrize("stop", [0, 1, 4, 7, 9])
def test_the_first_turns_are_the_conversation_of_these_turns(stop: int) -> None:
    (talk, make), tools = stored(LONG, [TOOL], plain=False), [TOOL]
    part = talk.until(stop)
    assert (len(part), make.asked) == (min(stop, 7), 0)
    assert told(part) == told(Talk.of(LONG[:stop], tools))
    assert told(Talk.of(LONG).until(stop)) == told(Talk.of(LONG[:stop]))


@pytest.mark.parametrize("stop", [0, 2, 7])
def test_a_continued_conversation_is_that_of_both_turns_with_the_tools_of_the_first(
    stop: int,
) -> None:
    (talk, make), (other, asked) = stored(LONG, [TOOL], plain=False), stored(turns("x", "y"))
    both = talk.continued(stop, other)
    assert (len(both), make.asked, asked.asked) == (stop + 2, 0, 0)
    assert told(both) == told(Talk.of([*LONG[:stop], *turns("x", "y")], [TOOL]))


def test_what_is_continued_is_plain_if_both_are() -> None:
    plain, other = Talk.of(LONG), stored(LONG, [TOOL], plain=False)[0]
    assert told(plain.continued(2, plain)) == told(Talk.of([*LONG[:2], *LONG]))
    assert not plain.continued(2, other).plain
    assert not other.continued(2, plain).plain
