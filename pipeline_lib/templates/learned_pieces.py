"""Which pieces of a rendered conversation are learned."""

from typing import NamedTuple

from pipeline_lib.templates.layouts import NO_TURN, LaidPiece
from pipeline_lib.templates.model_template import ProvenText
from pipeline_lib.templates.turn_messages import END_OF_THINK
from pipeline_lib.tracing.traced_values import REASONING_FIELDS

_CLOSING = END_OF_THINK.strip()


class Wanted(NamedTuple):
    """What is to be learned of a rendering: the messages, and those whose end mark is not."""

    turns: frozenset[int]
    cut: frozenset[int] = frozenset()

    def without(self, start: int, stop: int) -> "Wanted":
        """The same when messages ``start`` to ``stop`` are left out."""
        sides = (
            frozenset(t if t < start else t - (stop - start) for t in side if not start <= t < stop)
            for side in (self.turns, self.cut)
        )
        return Wanted(*sides)


def laid(found: ProvenText, wanted: Wanted) -> list[LaidPiece]:
    """The pieces, with the turns that are learned; the end mark of a cut turn is not."""
    pieces = [
        LaidPiece(text, kind.trusted, kind.turn if kind.turn in wanted.turns else NO_TURN)
        for text, kind in zip(found.texts, found.kinds, strict=True)
    ]
    for turn in wanted.cut & wanted.turns:
        own = [n for n, piece in enumerate(pieces) if piece.turn == turn]
        data = max((n for n in own if not pieces[n].trusted), default=-1)
        for number in (n for n in own if n > data):
            pieces[number] = _unlearned(pieces[number])
    return pieces


def _unlearned(piece: LaidPiece) -> LaidPiece:
    return LaidPiece(piece.text, piece.trusted, NO_TURN)


def shown(found: ProvenText, wanted: Wanted) -> Wanted:
    """Without the turns that the history writes otherwise than they are generated."""
    return wanted._replace(turns=wanted.turns - set(found.facts.rewritten))


def laid_shown(found: ProvenText, wanted: Wanted) -> list[LaidPiece]:
    """The same, without the turns that the history writes otherwise."""
    return laid(found, shown(found, wanted))


def behind_reasoning(found: ProvenText, wanted: Wanted) -> list[LaidPiece]:
    """Nothing of a turn up to the end of its reasoning is learned."""
    pieces = laid_shown(found, wanted)
    ends: dict[int | None, int] = {}
    for number, kind in enumerate(found.kinds):
        if kind.field in REASONING_FIELDS:
            ends[kind.turn] = number
    return [
        _unlearned(piece) if number <= ends.get(kind.turn, -1) else piece
        for number, (piece, kind) in enumerate(zip(pieces, found.kinds, strict=True))
    ]


def without_reasoning(found: ProvenText, wanted: Wanted) -> list[LaidPiece]:
    """The same where the reasoning stands inside the content: that piece is cut in two."""
    pieces = laid(found, wanted)
    out: list[LaidPiece] = []
    open_turns = {
        kind.turn
        for text, kind in zip(found.texts, found.kinds, strict=True)
        if kind.field == "content" and _CLOSING in text
    }
    for piece, kind in zip(pieces, found.kinds, strict=True):
        if kind.turn is None or kind.turn not in open_turns:
            out.append(piece)
        elif kind.field == "content" and _CLOSING in piece.text:
            thought, mark, answer = piece.text.partition(_CLOSING)
            out += [LaidPiece(thought, piece.trusted, NO_TURN)]
            out += [LaidPiece(mark + answer, piece.trusted, piece.turn)]
            open_turns.discard(kind.turn)
        else:
            out.append(_unlearned(piece))
    return out
