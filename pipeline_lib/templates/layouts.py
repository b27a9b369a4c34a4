"""Layouts: how the pieces of rendered text become control tokens and runs of text between them.

Text between two control tokens is encoded as one run, because a tokenizer may merge across pieces.
A layout depends on the kinds of the pieces and on the texts of trusted ones alone, so it is made
once for all conversations of a skeleton.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.templates.control_text import ControlTokens

NO_TURN = -1
"""The turn of text that no assistant generates."""
RUN = -1
"""In place of a control id: a run of text."""

Turn32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the tokens of pieces come from.

    ``parts``: texts of all runs, each the number of a piece or a constant text (UTF-8), and
    ``part_turns`` (int32) their turns. ``runs``: the parts of each run, first and behind the last.
    ``atoms`` (int64): the ids of control tokens, and ``RUN`` for a run, in order; ``mark_turns``
    (int32): the turns of the control tokens alone.
    """

    parts: tuple[int | bytes, ...]
    part_turns: Turn32
    runs: tuple[tuple[int, int], ...]
    atoms: NDArray[np.int64]
    mark_turns: Turn32


@dataclass(frozen=True)
class LaidPiece:
    """A piece as a layout needs it: ``text`` counts if it is ``trusted``; ``turn`` or -1."""

    text: str
    trusted: bool
    turn: int


@dataclass(frozen=True)
class _Part:
    """Text between control tokens (a number of a piece, or a constant), or a control token."""

    text: int | str
    turn: int
    control: bool = False


def layout_of(
    pieces: Sequence[LaidPiece], control: ControlTokens, ids: Mapping[str, int]
) -> Layout:
    """Control tokens are matched in trusted text only, also where they go over several pieces."""
    parts: list[_Part] = []
    runs: list[tuple[int, int]] = []
    atoms: list[int] = []
    marks: list[int] = []
    for is_control, group in groupby(_cut(pieces, control), key=lambda part: part.control):
        found = list(group)
        if is_control:
            atoms += [ids[str(part.text)] for part in found]
            marks += [part.turn for part in found]
        else:
            runs.append((len(parts), len(parts) + len(found)))
            parts += found
            atoms.append(RUN)
    texts = [p.text.encode() if isinstance(p.text, str) else p.text for p in parts]
    turns = np.array([part.turn for part in parts], np.int32)
    return Layout(
        tuple(texts), turns, tuple(runs), np.array(atoms, np.int64), np.array(marks, np.int32)
    )


def _cut(pieces: Sequence[LaidPiece], control: ControlTokens) -> Iterator[_Part]:
    numbered = enumerate(pieces)
    for trusted, group in groupby(numbered, key=lambda each: each[1].trusted):
        if trusted:
            yield from _cut_trusted([(piece.text, piece.turn) for _, piece in group], control)
        else:
            yield from (_Part(number, piece.turn) for number, piece in group)


def _cut_trusted(parts: list[tuple[str, int]], control: ControlTokens) -> Iterator[_Part]:
    text = "".join([part for part, _ in parts])
    at = 0
    for match in control.pattern.finditer(text):
        yield from _between(parts, at, match.start())
        turns = {part.turn for part in _between(parts, *match.span())}
        yield _Part(match.group(), turns.pop() if len(turns) == 1 else NO_TURN, control=True)
        at = match.end()
    yield from _between(parts, at, len(text))


def _between(parts: Iterable[tuple[str, int]], start: int, stop: int) -> Iterator[_Part]:
    """The characters ``start`` to ``stop`` of the joined parts, in parts."""
    at = 0
    for text, turn in parts:
        inside = text[max(start - at, 0) : max(stop - at, 0)]
        if inside:
            yield _Part(inside, turn)
        at += len(text)
