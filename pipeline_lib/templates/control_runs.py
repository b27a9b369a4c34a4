"""Pieces of rendered text, cut into control tokens and runs of plain text between them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.model_template import TextPiece

NO_TURN = -1
"""The turn of text that no assistant generates."""


@dataclass(frozen=True)
class ControlMark:
    """One control token; ``turn``: the message that generates it, or ``NO_TURN``."""

    text: str
    turn: int


@dataclass(frozen=True)
class PlainRun:
    """Text that is encoded as one, because the tokenizer may merge across its pieces.

    ``parts``: (text, turn) of neighbouring pieces.
    """

    parts: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """The whole text of the run."""
        return "".join([text for text, _ in self.parts])


Atom = ControlMark | PlainRun


def atoms(pieces: Sequence[TextPiece], control: ControlTokens) -> list[Atom]:
    """Control tokens are matched in trusted text only, also where they go over several pieces."""
    found: list[Atom] = []
    for is_control, group in groupby(_cut(pieces, control), key=lambda part: part[2]):
        if is_control:
            found.extend(ControlMark(text, turn) for text, turn, _ in group)
        else:
            parts = tuple((text, turn) for text, turn, _ in group if text)
            found.extend([PlainRun(parts)] if parts else [])
    return found


def _cut(pieces: Sequence[TextPiece], control: ControlTokens) -> Iterator[tuple[str, int, bool]]:
    """(text, turn, is it a control token), in order."""
    for trusted, group in groupby(pieces, key=lambda piece: piece.trusted):
        parts = [(p.text, NO_TURN if p.turn is None else p.turn) for p in group]
        if trusted:
            yield from _cut_trusted(parts, control)
        else:
            yield from ((text, turn, False) for text, turn in parts)


def _cut_trusted(
    parts: list[tuple[str, int]], control: ControlTokens
) -> Iterator[tuple[str, int, bool]]:
    text = "".join([part for part, _ in parts])
    at = 0
    for match in control.pattern.finditer(text):
        yield from ((t, turn, False) for t, turn in _between(parts, at, match.start()))
        turns = {turn for _, turn in _between(parts, *match.span())}
        yield match.group(), turns.pop() if len(turns) == 1 else NO_TURN, True
        at = match.end()
    yield from ((t, turn, False) for t, turn in _between(parts, at, len(text)))


def _between(parts: Iterable[tuple[str, int]], start: int, stop: int) -> Iterator[tuple[str, int]]:
    """The characters ``start`` to ``stop`` of the joined parts, in parts."""
    at = 0
    for text, turn in parts:
        inside = text[max(start - at, 0) : max(stop - at, 0)]
        if inside:
            yield inside, turn
        at += len(text)
