"""Control tokens are told in the template's own text alone, and no character is lost or moved."""

import random
import re

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.layouts import NO_TURN, RUN, LaidPiece, Layout, layout_of

CONTROL = ControlTokens(frozenset({"<a>", "<b>", "<a><b>"}))
IDS = {"<a>": 7, "<b>": 8, "<a><b>": 9}
NAMES = {number: text for text, number in IDS.items()}


def layout(*pieces: LaidPiece) -> Layout:
    return layout_of(pieces, CONTROL, IDS, lambda _: None)


def text_of(made: Layout, pieces: tuple[LaidPiece, ...]) -> str:
    """The text that a layout stands for, from its atoms."""
    parts = [p.decode() if isinstance(p, bytes) else pieces[p].text for p in made.parts]
    runs = iter("".join(parts[first:stop]) for first, stop in made.runs)
    return "".join(next(runs) if atom == RUN else NAMES[atom] for atom in made.atoms.tolist())


def test_a_mark_is_a_mark_in_trusted_text_and_text_everywhere_else() -> None:
    made = layout(LaidPiece("<a>x", True, NO_TURN), LaidPiece("<a>", False, 1))
    assert made.atoms.tolist() == [7, RUN]
    assert made.parts == (b"x", 1)


def test_the_longest_mark_counts_also_over_several_pieces() -> None:
    made = layout(LaidPiece("<a", True, 1), LaidPiece("><b>", True, 1))
    assert made.atoms.tolist() == [9]
    assert made.fixed_turns.tolist() == [1]


def test_text_of_the_data_never_completes_a_mark() -> None:
    for left, right in ((True, False), (False, True)):
        made = layout(LaidPiece("<a", left, 1), LaidPiece(">", right, 1))
        assert made.atoms.tolist() == [RUN]


def test_a_mark_over_two_turns_is_generated_by_none() -> None:
    made = layout(LaidPiece("<a", True, 1), LaidPiece(">", True, 3), LaidPiece("<b>", True, 3))
    assert (made.atoms.tolist(), made.fixed_turns.tolist()) == ([9], [NO_TURN])
    assert layout(LaidPiece("<a", True, 1), LaidPiece(">", True, 3)).fixed_turns.tolist() == [
        NO_TURN
    ]


def test_text_between_marks_is_one_run_with_the_turn_of_each_part() -> None:
    made = layout(
        LaidPiece("<a>head", True, NO_TURN), LaidPiece("body", False, 2), LaidPiece("t<b>", True, 2)
    )
    assert made.parts == (b"head", 1, b"t")
    assert made.part_turns.tolist() == [NO_TURN, 2, 2]
    assert made.runs == ((0, 3),)
    assert made.atoms.tolist() == [7, RUN, 8]
    assert made.fixed_turns.tolist() == [NO_TURN, 2]


def test_the_text_of_any_pieces_is_kept_and_marks_are_those_of_trusted_text() -> None:
    chance = random.Random(1)
    for _ in range(2_000):
        words = ("<a>", "<b>", "<a", ">", "x", "", "<", "b>", "é")
        pieces = tuple(
            LaidPiece(
                "".join(chance.choices(words, k=3)),
                chance.random() < 0.6,
                chance.choice((NO_TURN, 1)),
            )
            for _ in range(chance.randint(1, 5))
        )
        made = layout(*pieces)
        assert text_of(made, pieces) == "".join(piece.text for piece in pieces)
        trusted = "\0".join("".join(p.text if p.trusted else "\0" for p in pieces).split("\0"))
        expected = [IDS[m] for m in re.findall(CONTROL.pattern, trusted)]
        assert [atom for atom in made.atoms.tolist() if atom != RUN] == expected
        assert not any(a == b == RUN for a, b in zip(made.atoms, made.atoms[1:], strict=False))


def test_constant_text_that_can_be_encoded_beforehand_is_ids_and_turns() -> None:
    pieces = (LaidPiece("<a>xy<b>", True, 1), LaidPiece("z", False, 2), LaidPiece("w", True, 2))
    made = layout_of(pieces, CONTROL, IDS, lambda _: ([21, 22], [1, NO_TURN]))
    assert made.atoms.tolist() == [7, 21, 22, 8, RUN]
    assert made.fixed_turns.tolist() == [1, 1, NO_TURN, 1]
    assert (made.parts, made.runs) == ((1, b"w"), ((0, 2),))
    assert layout(*pieces).atoms.tolist() == [7, RUN, 8, RUN]
