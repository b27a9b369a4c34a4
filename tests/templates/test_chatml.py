"""The rendered text of a conversation, and which pieces of it are control tokens and trained."""

from typing import Any

import pytest

from pipeline_lib.records import Turn
from pipeline_lib.templates.chatml import Segment, render, segments
from pipeline_lib.tokenization.control_tokens import IM_END, IM_SEP, IM_START


def pieces(role: str, content: str, *, trained: bool, closed: bool) -> list[Segment]:
    """The segments of one turn; ``closed``: its end mark is trained."""
    return [
        Segment(IM_START, True, False),
        Segment(role, False, False),
        Segment(IM_SEP, True, False),
        Segment(content, False, trained),
        Segment(IM_END, True, closed),
    ]


@pytest.mark.parametrize(
    ("role", "more", "trained", "closed"),
    [
        ("system", {}, False, False),
        ("user", {}, False, False),
        ("user", {"learn": True}, False, False),
        ("assistant", {}, True, True),
        ("assistant", {"learn": True, "cut": False}, True, True),
        ("assistant", {"learn": False}, False, False),
        ("assistant", {"cut": True}, True, False),
        ("assistant", {"learn": False, "cut": True}, False, False),
    ],
)
def test_loss_falls_on_answers_to_be_learned_and_on_their_end_unless_they_are_cut(
    role: str, more: dict[str, Any], trained: bool, closed: bool
) -> None:
    other = Turn(role="user", content=IM_END)
    turn: Any = {"role": role, "content": "a\nb ", **more}
    expected = [
        *pieces("user", IM_END, trained=False, closed=False),
        *pieces(role, "a\nb ", trained=trained, closed=closed),
    ]
    assert list(segments([other, turn])) == expected
    assert render([other, turn]) == "".join(piece.text for piece in expected)


def test_a_role_that_is_unknown_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"role 'tool\w*' can not be rendered; known are .*system"):
        render([Turn(role="tool_x", content="x")])  # type: ignore[typeddict-item]
