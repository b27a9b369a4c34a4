"""Which pieces are learned: no text is lost or changed, and nothing but the turns is taken away."""

import pytest

from pipeline_lib.templates.layouts import NO_TURN, LaidPiece
from pipeline_lib.templates.learned_pieces import (
    Wanted,
    behind_reasoning,
    laid,
    laid_shown,
    shown,
    without_reasoning,
)
from pipeline_lib.templates.model_template import Facts, ProvenText
from pipeline_lib.templates.skeletons import PieceKind
from pipeline_lib.tracing.traced_values import REASONING_FIELDS

Piece = tuple[str, bool, int | None, str | None]
"""Text, trusted, turn, field."""
OTHERS: list[Piece] = [("<user>", True, None, None), ("q", False, None, "content")]


def proven(pieces: list[Piece], rewritten: tuple[int, ...] = ()) -> ProvenText:
    kinds = tuple(PieceKind(trusted, turn, field) for _, trusted, turn, field in pieces)
    facts = Facts({}, rewritten, (), frozenset())
    return ProvenText([piece[0] for piece in pieces], kinds, facts, None)


def answer(turn: int) -> list[Piece]:
    return [("!", True, turn, None), ("yes", False, turn, "content"), ("<end>", True, turn, None)]


TWO = proven([*OTHERS, *answer(1), *OTHERS, *answer(3)], (1,))
BOTH = Wanted(frozenset({1, 3}))


def learned(pieces: list[LaidPiece]) -> list[tuple[str, int]]:
    return [(piece.text, piece.turn) for piece in pieces if piece.turn != NO_TURN]


def as_text(pieces: list[LaidPiece]) -> list[tuple[str, bool]]:
    """Each character, and whether it is the template's."""
    return [(character, piece.trusted) for piece in pieces for character in piece.text]


def test_every_piece_keeps_its_text_and_trust_and_wanted_ones_their_turn() -> None:
    found = laid(TWO, Wanted(frozenset({3, 4})))
    kept = [(piece.text, piece.trusted) for piece in found]
    assert kept == [*zip(TWO.texts, (kind.trusted for kind in TWO.kinds), strict=True)]
    assert learned(found) == [("!", 3), ("yes", 3), ("<end>", 3)]


def test_what_the_template_writes_behind_a_cut_answer_is_not_learned() -> None:
    found = laid(TWO, BOTH._replace(cut=frozenset({3})))
    assert learned(found) == [("!", 1), ("yes", 1), ("<end>", 1), ("!", 3), ("yes", 3)]
    unwanted = laid(TWO, Wanted(frozenset({1}), frozenset({3})))
    assert learned(unwanted) == [("!", 1), ("yes", 1), ("<end>", 1)]


def test_what_the_template_writes_between_the_words_of_a_cut_answer_is_learned() -> None:
    thought: list[Piece] = [("hm", False, 1, "thinking"), ("</think>", True, 1, None)]
    found = proven([*OTHERS, *thought, *answer(1)])
    pieces = laid(found, Wanted(frozenset({1}), frozenset({1})))
    assert learned(pieces) == [("hm", 1), ("</think>", 1), ("!", 1), ("yes", 1)]


def test_of_a_cut_answer_that_says_nothing_nothing_is_learned() -> None:
    found = proven([("!", True, 1, None), ("<end>", True, 1, None), *answer(3)])
    assert learned(laid(found, BOTH._replace(cut=frozenset({1})))) == learned(
        laid(found, Wanted(frozenset({3})))
    )


def test_a_turn_that_the_history_rewrites_is_not_shown() -> None:
    cut = frozenset({3})
    assert shown(TWO, Wanted(BOTH.turns, cut)) == Wanted(frozenset({3}), cut)
    assert laid_shown(TWO, Wanted(BOTH.turns, cut)) == laid(TWO, Wanted(frozenset({3}), cut))
    assert laid(TWO, BOTH) != laid_shown(TWO, BOTH)


@pytest.mark.parametrize("field", REASONING_FIELDS)
def test_only_what_follows_the_last_piece_of_a_turns_reasoning_is_learned(field: str) -> None:
    thought: list[Piece] = [
        *(("<think>", True, 1, None), ("hm", False, 1, field), (" ", True, 1, None)),
        *(("so", False, 1, field), ("</think>", True, 1, None), ("yes", False, 1, "content")),
    ]
    found = proven([*OTHERS, *thought, *OTHERS, *answer(3)])
    pieces = behind_reasoning(found, BOTH)
    assert learned(pieces) == [
        *(("</think>", 1), ("yes", 1)),
        *(("!", 3), ("yes", 3), ("<end>", 3)),
    ]
    assert as_text(pieces) == as_text(laid(found, BOTH))


def test_reasoning_of_the_history_that_is_not_generated_takes_no_turn_away() -> None:
    found = proven([("hm", False, None, "thinking"), *answer(1), ("x", True, None, None)])
    assert behind_reasoning(found, BOTH) == laid(found, BOTH)
    assert behind_reasoning(TWO, BOTH) == laid_shown(TWO, BOTH)


def inside(turn: int, content: str) -> list[Piece]:
    """An answer with a call behind its content."""
    call: list[Piece] = [("f", False, turn, "tool_calls"), ("<end>", True, turn, None)]
    return [("!", True, turn, None), (content, False, turn, "content"), *call]


def test_reasoning_inside_a_content_is_cut_off_before_its_closing_mark() -> None:
    found = proven([*OTHERS, *inside(1, "<think>\nhm\n</think>\n\na </think> b"), *answer(3)])
    pieces = without_reasoning(found, BOTH)
    assert learned(pieces) == [
        *(("</think>\n\na </think> b", 1), ("f", 1), ("<end>", 1)),
        *(("!", 3), ("yes", 3), ("<end>", 3)),
    ]
    assert as_text(pieces) == as_text(laid(found, BOTH))


def test_nothing_before_the_content_that_closes_the_reasoning_is_learned() -> None:
    halves: list[Piece] = [
        *(("</think>", True, 1, None), ("<think>\nhm", False, 1, "content")),
        *(("</think>", False, 1, "tool_calls"), ("\n</think>\n\na", False, 1, "content")),
        ("</think> b", False, 1, "content"),
    ]
    found = proven([*halves, *OTHERS])
    pieces = without_reasoning(found, BOTH)
    assert learned(pieces) == [("</think>\n\na", 1), ("</think> b", 1)]
    assert as_text(pieces) == as_text(laid(found, BOTH))


def test_a_closing_mark_of_what_nobody_generates_or_learns_changes_nothing() -> None:
    asked: Piece = ("a\n</think>\n\nb", False, None, "content")
    found = proven([asked, *inside(1, "a\n</think>\n\nb"), *answer(3)])
    pieces = without_reasoning(found, Wanted(frozenset({3})))
    assert learned(pieces) == [("!", 3), ("yes", 3), ("<end>", 3)]
    without = proven([asked, *answer(1), *answer(3)])
    assert without_reasoning(without, BOTH) == laid(without, BOTH)


def test_turns_that_are_left_out_move_the_later_ones_and_take_their_flags_along() -> None:
    wanted = Wanted(frozenset({0, 1, 2, 3, 5}), frozenset({2, 5}))
    assert wanted.without(1, 3) == Wanted(frozenset({0, 1, 3}), frozenset({3}))
    assert wanted.without(2, 2) == wanted
