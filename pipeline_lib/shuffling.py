"""The order of documents: a seeded order of files, and a shuffle in bounded memory. Pure.

Random decisions use only raw 64-bit outputs of PCG64: numpy guarantees that these never change (for
``Generator`` methods it does not). Each decision takes one output, scaled by ``(raw * n) >> 64``,
so the whole random state is one integer, the number of draws. The draws depend only on the sequence
of rows, not on the blocks in which a reader delivers them.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from pipeline_lib.records import Cursor

Item = TypeVar("Item")
Row = bytes | None
"""One document as UTF-8 bytes; ``None`` for a null."""

FILE_STREAM = 0
DOCUMENT_STREAM = 1
START = Cursor(0, 0)
SHUFFLE = (
    "order of files: Fisher-Yates; documents: bounded buffer; draws: numpy "
    "PCG64(SeedSequence([seed, stream])), raw 64-bit outputs, (raw * n) >> 64"
)
_BLOCK = 4_096


def source_rng(seed: int, stream: int) -> np.random.PCG64:
    """The random generator of one stream: 0 orders files, 1 + lane shuffles documents."""
    return np.random.PCG64(np.random.SeedSequence([seed, stream]))


class Dice:
    """Random integers below a bound, from raw 64-bit outputs; ``draws`` is the whole state."""

    def __init__(self, seed: int, stream: int, draws: int = 0) -> None:
        self._generator = source_rng(seed, stream)
        self._generator.advance(draws)
        self._generated = draws
        self._ahead: list[int] = []

    @property
    def draws(self) -> int:
        """How many integers have been drawn."""
        return self._generated - len(self._ahead)

    def below(self, n: int) -> int:
        """A random integer in [0, n)."""
        if not self._ahead:
            self._generate()
        return (self._ahead.pop() * n) >> 64

    def _generate(self) -> None:
        self._ahead = self._generator.random_raw(_BLOCK).tolist()
        self._ahead.reverse()
        self._generated += _BLOCK


def shuffled(items: Sequence[Item], dice: Dice) -> list[Item]:
    """A new list in random order (Fisher-Yates, from the end)."""
    result = list(items)
    for last in range(len(result) - 1, 0, -1):
        other = dice.below(last + 1)
        result[last], result[other] = result[other], result[last]
    return result


def file_order(names: Iterable[str], seed: int) -> list[str]:
    """Names sorted lexicographically, then shuffled by stream 0."""
    return shuffled(sorted(names), Dice(seed, FILE_STREAM))


class RowBlock(NamedTuple):
    """Consecutive rows of one file: its index in the file order, number of the first row, rows."""

    file: int
    first: int
    rows: list[Row]


class ShuffleState(NamedTuple):
    """The state of a shuffle: the next row to read, the number of draws, the held documents.

    ``draining``: the source is exhausted and ``buffer`` is already shuffled; its last document is
    emitted next.
    """

    cursor: Cursor
    draws: int
    buffer: list[Row]
    draining: bool


class ShuffleBuffer:
    """A shuffle in bounded memory that can stop after any document and continue there.

    It holds up to ``capacity`` documents. Once it is full, each new document replaces the document
    in a random slot, which is emitted. While it holds more than ``capacity_bytes`` and more than
    one document, further random documents are emitted; the last document fills each gap. At the end
    the rest is shuffled and emitted.
    """

    def __init__(
        self, dice: Dice, capacity: int, capacity_bytes: int, cursor: Cursor = START
    ) -> None:
        self._dice = dice
        self._capacity, self._capacity_bytes = capacity, capacity_bytes
        self._held: list[Row] = []
        self._bytes = 0
        self._draining = False
        self._file, self._row = cursor

    @classmethod
    def restored(
        cls, state: ShuffleState, dice: Dice, capacity: int, capacity_bytes: int
    ) -> "ShuffleBuffer":
        """The buffer in a saved state; ``dice`` must be at ``state.draws``."""
        buffer = cls(dice, capacity, capacity_bytes, state.cursor)
        buffer._held, buffer._draining = list(state.buffer), state.draining
        buffer._bytes = sum(len(row) for row in state.buffer if row is not None)
        return buffer

    def run(self, blocks: Iterable[RowBlock]) -> Generator[Row, None, None]:
        """Emit every row once; a run that continues from ``state()`` of a yield emits the rest."""
        held, capacity, below = self._held, self._capacity, self._dice.below
        if not self._draining:
            yield from self._overflow()  # the last run may have stopped during an overflow
            for file, first, rows in blocks:
                self._file = file
                for self._row, row in enumerate(rows, first + 1):
                    self._bytes += len(row) if row is not None else 0
                    if len(held) < capacity:
                        held.append(row)
                    else:
                        slot = below(capacity)
                        leaving, held[slot] = held[slot], row
                        self._bytes -= len(leaving) if leaving is not None else 0
                        yield leaving
                    if self._bytes > self._capacity_bytes:
                        yield from self._overflow()
            held = self._held = shuffled(held, self._dice)
            self._draining = True
        while held:
            yield held.pop()

    def _overflow(self) -> Iterator[Row]:
        held = self._held
        while self._bytes > self._capacity_bytes and len(held) > 1:
            slot = self._dice.below(len(held))
            leaving, held[slot] = held[slot], held[-1]
            held.pop()
            self._bytes -= len(leaving) if leaving is not None else 0
            yield leaving

    def state(self) -> ShuffleState:
        """The state with its documents; the list is copied, the documents are shared."""
        return self.position()._replace(buffer=list(self._held))

    def position(self) -> ShuffleState:
        """The state without its documents."""
        cursor = Cursor(self._file, self._row)
        return ShuffleState(cursor, self._dice.draws, [], self._draining)


def shuffled_texts(
    rows: Iterable[Row], *, seed: int, capacity: int, capacity_bytes: int, lane: int = 0
) -> Iterator[Row]:
    """The rows of a source in the order in which a new run emits them."""
    dice = Dice(seed, DOCUMENT_STREAM + lane)
    return ShuffleBuffer(dice, capacity, capacity_bytes).run([RowBlock(0, 0, list(rows))])
