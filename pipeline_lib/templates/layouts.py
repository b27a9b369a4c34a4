"""Layouts: how the pieces of rendered text become control tokens and runs of text between them.

Text between two control tokens is encoded as one run, because a tokenizer may merge across pieces.
A layout depends on the kinds of the pieces and on the texts of trusted ones alone, so it is made
once for all conversations of a skeleton.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    ``atoms`` (int64): the ids of control tokens and of constant text, and ``RUN`` for a run, in
    order; ``fixed_turns`` (int32): the turns of these ids alone.
    """

    parts: tuple[int | bytes, ...]
    part_turns: Turn32
    runs: tuple[tuple[int, int], ...]
    atoms: NDArray[np.int64]
    fixed_turns: Turn32

    @property
    def is_constant(self) -> bool:
        """Whether it takes nothing from the pieces."""
        return all(isinstance(part, bytes) for part in self.parts)


FixedTokens = tuple[list[int], list[int]]
"""Ids, and the turn of each."""
EncodeFixed = Callable[[Layout], FixedTokens | None]
"""The tokens of constant text, which is given as a layout of its own; None if it has to be encoded
with each conversation."""


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
    pieces: Sequence[LaidPiece],
    control: ControlTokens,
    ids: Mapping[str, int],
    encode_fixed: EncodeFixed,
) -> Layout:
    """Control tokens are matched in trusted text only, also where they go over several pieces."""
    parts: list[_Part] = []
    runs: list[tuple[int, int]] = []
    atoms: list[int] = []
    turns: list[int] = []
    for is_control, group in groupby(_cut(pieces, control), key=lambda part: part.control):
        found = list(group)
        if is_control:
            atoms += [ids[str(part.text)] for part in found]
            turns += [part.turn for part in found]
        elif tokens := _fixed(found, encode_fixed):
            atoms += tokens[0]
            turns += tokens[1]
        else:
            runs.append((len(parts), len(parts) + len(found)))
            parts += found
            atoms.append(RUN)
    return _layout(parts, runs, atoms, turns)


def _layout(
    parts: Sequence[_Part], runs: Sequence[tuple[int, int]], atoms: list[int], turns: list[int]
) -> Layout:
    texts = [p.text.encode() if isinstance(p.text, str) else p.text for p in parts]
    part_turns = np.array([part.turn for part in parts], np.int32)
    fixed_turns = np.array(turns, np.int32)
    return Layout(tuple(texts), part_turns, tuple(runs), np.array(atoms, np.int64), fixed_turns)


def _fixed(parts: Sequence[_Part], encode_fixed: EncodeFixed) -> FixedTokens | None:
    alone = _layout(parts, [(0, len(parts))], [RUN], [])
    return encode_fixed(alone) if alone.is_constant else None


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
