"""Rows in visited order become batches: skipped, identified, split, folded into the digest.

A batch ends after a fixed number of rows or bytes, so its borders, and with them every
commit, depend on the sequence of rows alone.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import selection
from pipeline_lib.digest import Chain
from pipeline_lib.order import Row, ShuffleBuffer, ShuffleState
from pipeline_lib.recipe import Recipe

NULL_LENGTH = 2**64 - 1
PROBE_BYTES = 64 << 10
_PROBE_BITS = 0xFFF


class Seen(NamedTuple):
    """Counts over all rows visited so far, and their running digest (hex)."""

    rows: int = 0
    nulls: int = 0
    blanks: int = 0
    source_digest: str = "00" * 32


class Batch(NamedTuple):
    """Documents of consecutive visited rows, the training ones first.

    ``texts``: UTF-8; the first ``train`` of them belong to the training split, the rest to
    validation. ``positions``: int64, place of each text in the batch's visited order.
    ``probes``: indices of texts whose ids are compared with the reference. ``seen`` and
    ``shuffle`` stand behind the batch; ``shuffle.buffer`` is empty unless ``commit``.
    """

    texts: list[bytes]
    train: int
    positions: NDArray[np.int64]
    probes: list[int]
    seen: Seen
    shuffle: ShuffleState
    commit: bool


def is_blank(text: bytes) -> bool:
    """Whether a UTF-8 text is empty or Unicode white space only."""
    head = text[:4].decode("utf-8", "ignore")[:1]
    return not head or (head.isspace() and text.decode("utf-8").isspace())


class Visitor:
    """Cuts the shuffled rows of one lane into batches and keeps the running counts."""

    def __init__(self, recipe: Recipe, seen: Seen = Seen()) -> None:  # noqa: B008 (immutable)
        self._rows = recipe.tokenization_batch_size
        self._bytes = recipe.tokenization_batch_bytes
        self._prefix = selection.identity_prefix(recipe.seed)
        self._threshold = selection.val_threshold(recipe.val_fraction)
        self.seen = seen

    def batches(
        self, shuffle: ShuffleBuffer, rows: Iterable[Row], commit_due: Callable[[], bool]
    ) -> Generator[Batch, None, None]:
        """Batches until the rows end; ``commit_due`` is asked at each batch's end.

        ``rows`` is the running ``shuffle``, perhaps cut at a bound.
        """
        source = iter(rows)
        while taken := self._take(source):
            due = commit_due()
            state = shuffle.state() if due else shuffle.position()
            yield self._batch(taken, state, due)

    def _take(self, source: Iterator[Row]) -> list[Row]:
        taken: list[Row] = []
        size = 0
        while len(taken) < self._rows and size < self._bytes:
            try:
                row = next(source)
            except StopIteration:
                break
            taken.append(row)
            size += len(row) if row is not None else 0
        return taken

    def _batch(self, rows: list[Row], shuffle: ShuffleState, commit: bool) -> Batch:
        nulls = blanks = 0
        chain = Chain(self.seen.source_digest)
        sides: tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]] = ([], [])
        probed: set[int] = set()
        for position, row in enumerate(rows):
            if row is None:
                chain.add_digest(NULL_LENGTH, b"")
                nulls += 1
                continue
            identity = selection.identity(self._prefix, row)
            chain.add_digest(len(row), identity)
            if is_blank(row):
                blanks += 1
                continue
            first = int.from_bytes(identity[:8], "big")
            sides[first < self._threshold].append((position, row))
            if not (first & _PROBE_BITS) and len(row) <= PROBE_BYTES:
                probed.add(position)
        before = self.seen
        self.seen = Seen(
            before.rows + len(rows), before.nulls + nulls, before.blanks + blanks, chain.state
        )
        kept = [*sides[0], *sides[1]]
        return Batch(
            texts=[row for _, row in kept],
            train=len(sides[0]),
            positions=np.array([position for position, _ in kept], np.int64),
            probes=[index for index, (position, _) in enumerate(kept) if position in probed],
            seen=self.seen,
            shuffle=shuffle,
            commit=commit,
        )
