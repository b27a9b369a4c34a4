"""Rows in visited order become batches: skipped, identified, split, folded into the digest.

A batch ends after a fixed number of rows or bytes. So its end, and with it the place of every
commit, depends on the sequence of rows alone.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import selection
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.digest import Chain
from pipeline_lib.shuffling import Row, ShuffleBuffer, ShuffleState

NULL_LENGTH = 2**64 - 1
_VISIBLE = range(0x21, 0x7F)  # ASCII that is neither white space nor control


class Probing(NamedTuple):
    """Which documents are compared with the reference encoder: one in ``every``, picked by content,
    of those that have at most ``longest`` bytes."""

    every: int = 4_096
    longest: int = 64 << 10


class VisitCounts(NamedTuple):
    """Counts over all rows visited so far, and their running digest (hex)."""

    rows: int = 0
    nulls: int = 0
    blanks: int = 0
    source_digest: str = "00" * 32


NOTHING_VISITED = VisitCounts()
USUAL_PROBES = Probing()


class DocumentBatch(NamedTuple):
    """Documents of consecutive visited rows, the training ones first.

    ``texts``: UTF-8; the first ``train`` of them belong to the training split, the rest to
    validation. ``positions`` (int64, one for each text): its place in the batch's visited order.
    ``probes``: indices of the texts whose ids are compared with the reference. ``seen`` and
    ``shuffle`` are the state behind the batch's last row; ``shuffle.buffer`` is empty unless
    ``commit``, which says that a commit is due behind this batch. ``first_row``: the number, in the
    lane, of the batch's first visited row.
    """

    texts: list[bytes]
    train: int
    positions: NDArray[np.int64]
    probes: list[int]
    seen: VisitCounts
    shuffle: ShuffleState
    commit: bool
    first_row: int = 0

    def row_of(self, index: int) -> int:
        """The visited row of a text, counted in the lane."""
        return self.first_row + int(self.positions[index])

    def alone(self, text: bytes) -> "DocumentBatch":
        """A batch of one text."""
        return self._replace(texts=[text], train=1, positions=np.zeros(1, np.int64), probes=[])


def is_blank(text: bytes) -> bool:
    """Whether a UTF-8 text is empty or Unicode white space only."""
    if text and text[0] in _VISIBLE:
        return False
    head = text[:64].decode("utf-8", "ignore")  # few texts begin with that much white space
    return not head or (head.isspace() and text.decode("utf-8").isspace())


class Batcher:
    """Cuts the shuffled rows of one lane into batches and keeps the running counts."""

    def __init__(
        self, recipe: Recipe, seen: VisitCounts = NOTHING_VISITED, probing: Probing = USUAL_PROBES
    ) -> None:
        self._rows = recipe.tokenization_batch_size
        self._bytes = recipe.tokenization_batch_bytes
        self._prefix = selection.identity_prefix(recipe.seed)
        self._threshold = selection.val_threshold(recipe.val_fraction)
        self.seen, self._probing = seen, probing

    def batches(
        self, shuffle: ShuffleBuffer, rows: Iterable[Row], commit_due: Callable[[], bool]
    ) -> Generator[DocumentBatch, None, None]:
        """Batches until the rows end; ``commit_due`` is asked at the end of each batch.

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
        for row in source:
            taken.append(row)
            size += len(row) if row is not None else 0
            if len(taken) == self._rows or size >= self._bytes:
                break
        return taken

    def _batch(self, rows: list[Row], shuffle: ShuffleState, commit: bool) -> DocumentBatch:
        found = self._visit(rows)
        before = self.seen
        self.seen = VisitCounts(
            before.rows + len(rows), before.nulls + found.nulls, before.blanks + found.blanks,
            found.digest,
        )  # fmt: skip
        kept = [*found.train, *found.val]
        return DocumentBatch(
            texts=[rows[position] for position in kept],  # type: ignore[misc]  # no null is kept
            train=len(found.train),
            positions=np.array(kept, np.int64),
            probes=[kept.index(position) for position in found.probes],
            seen=self.seen,
            shuffle=shuffle,
            commit=commit,
            first_row=before.rows,
        )

    def _visit(self, rows: list[Row]) -> "_Visited":
        """Fold the rows into the digest and classify them.

        This loop runs once for every document of a corpus. SHA-256 takes half of its time, so it
        calls no function of ours that is not needed.
        """
        nulls, blanks, threshold, prefix = 0, 0, self._threshold, self._prefix
        train: list[int] = []
        val: list[int] = []
        probes: list[int] = []
        every, longest = self._probing
        digest = Chain(self.seen.source_digest)
        fold = digest.add_digest
        for position, row in enumerate(rows):
            if row is None:
                fold(NULL_LENGTH, b"")
                nulls += 1
                continue
            identity = selection.identity(prefix, row)
            fold(len(row), identity)
            if is_blank(row):
                blanks += 1
                continue
            first = int.from_bytes(identity[:8], "big")
            (val if first < threshold else train).append(position)
            if not first % every and len(row) <= longest:
                probes.append(position)
        return _Visited(train, val, probes, nulls, blanks, digest.state)


class _Visited(NamedTuple):
    """Places of the training, validation and probed rows, counts of the rows that are skipped, and
    the digest behind the last row."""

    train: list[int]
    val: list[int]
    probes: list[int]
    nulls: int
    blanks: int
    digest: str
