"""Stored conversations of all sources as one sequence that reads from disk.

A part is mapped on its first use, so neither memory nor open files grow with the number of parts.
Opening takes only as long as a check of the file sizes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest
from pipeline_lib.chat.conversation import Pair, Turns
from pipeline_lib.chat.store_format import Part, in_columns
from pipeline_lib.chat.store_record import StoreDetails
from pipeline_lib.records import Turn, TurnBatch
from pipeline_lib.storage.keyed_folder import KeyedFolder, Record


class StoredPart(NamedTuple):
    """One part of a split: its file and the number of conversations in it."""

    path: Path
    rows: int


@dataclass(frozen=True)
class StoredSource:
    """The stored conversations of one source and split, and the digest of their content."""

    name: str
    parts: tuple[StoredPart, ...]
    fingerprint: str

    @property
    def rows(self) -> int:
        """Number of conversations."""
        return sum(part.rows for part in self.parts)


class ConversationBatch(NamedTuple):
    """Some conversations in columns.

    ``turns``: all turns; for a pair, prompt and chosen continuation. ``rejected``: the rejected
    continuations, without turns where there is no pair. ``prompt`` (int32): the number of prompt
    turns, 0 where there is no pair. ``source`` (int64): index in ``Conversations.sources``.
    """

    turns: TurnBatch
    rejected: TurnBatch
    prompt: NDArray[np.int32]
    source: NDArray[np.int64]


class Conversations(Sequence[list[Turn]]):
    """The conversations of one split of all sources, source after source, read from disk.

    An item is a list of turns ``{"role", "content"}``, with the ``tools`` that the conversation was
    offered, if any; a slice is a list of items. For a preference pair the item is the prompt and
    the chosen continuation, and ``pair`` gives the whole pair.
    ``missing``: sources that were asked for and are not here -> the reason.
    """

    def __init__(
        self, sources: Sequence[StoredSource], missing: Mapping[str, str] | None = None
    ) -> None:
        self.sources, self.missing = tuple(sources), dict(missing or {})
        self._records = [part for source in sources for part in source.parts]
        self._parts: list[Part | None] = [None] * len(self._records)
        rows = np.array([part.rows for part in self._records], np.int64)
        self._ends = np.cumsum(rows)
        self._starts = self._ends - rows
        self._source_ends = np.cumsum([source.rows for source in sources], dtype=np.int64)

    @property
    def fingerprints(self) -> dict[str, str]:
        """Source -> digest of its conversations, in order."""
        return {source.name: source.fingerprint for source in self.sources}

    @property
    def counts(self) -> dict[str, int]:
        """Source -> number of its conversations, in order."""
        return {source.name: source.rows for source in self.sources}

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @overload
    def __getitem__(self, place: int) -> Turns: ...
    @overload
    def __getitem__(self, place: slice) -> list[list[Turn]]: ...
    def __getitem__(self, place: int | slice) -> Turns | list[list[Turn]]:
        if isinstance(place, slice):
            return [self[row] for row in range(*place.indices(len(self)))]
        part, row = self._locate(place)
        return part.conversation(row)

    def __iter__(self) -> Iterator[list[Turn]]:
        for row in range(len(self)):
            yield self[row]

    def pair(self, row: int) -> Pair | None:
        """The preference pair at a row; None for a plain conversation."""
        part, local = self._locate(row)
        return part.pair(local)

    def only(self, names: Sequence[str]) -> "Conversations":
        """The conversations of some of the sources, in the order of this sequence.

        A source that is missing stays missing. ``ValueError`` for a name that no source has, and
        without a name.
        """
        wanted = [names] if isinstance(names, str) else list(names)
        known = {**self.counts, **self.missing}
        unknown = [name for name in wanted if name not in known]
        if unknown or not wanted:
            raise ValueError(
                f"sources name {', '.join(unknown) or 'nothing'}; there is {', '.join(known)}"
            )
        chosen = [source for source in self.sources if source.name in wanted]
        return Conversations(chosen, {n: why for n, why in self.missing.items() if n in wanted})

    def documents(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some rows are documents: text that answers nobody."""
        return self._flags(rows, lambda part: part.document > 0)

    def real_pairs(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some rows are preference pairs."""
        return self._flags(rows, lambda part: part.prompt > 0)

    def _flags(
        self, rows: NDArray[np.int64], flags: Callable[[Part], NDArray[np.bool_]]
    ) -> NDArray[np.bool_]:
        """A flag of every row; texts are not read."""
        places = np.searchsorted(self._ends, rows, "right")
        found = np.zeros(len(rows), bool)
        for place in np.unique(places).tolist():
            here = places == place
            found[here] = flags(self._open(place))[rows[here] - self._starts[place]]
        return found

    def characters(self) -> NDArray[np.int64]:
        """Characters of content of every conversation (int64), without rejected continuations."""
        counts = [self._open(place).characters for place in range(len(self._records))]
        return np.concatenate([np.empty(0, np.int64), *counts])

    def read(self, rows: NDArray[np.int64]) -> ConversationBatch:
        """The conversations at some rows, in the given order, in columns."""
        places = np.searchsorted(self._ends, rows, "right")
        local = (rows - self._starts[places]).tolist()
        here = list(zip(map(self._open, places.tolist()), local, strict=True))
        return ConversationBatch(
            in_columns(part.turns.row(row) for part, row in here),
            in_columns(part.rejected.row(row) for part, row in here),
            np.array([part.prompt[row] for part, row in here], np.int32),
            self.source_numbers(rows),
        )

    def source_numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """For some rows, the index in ``sources`` of the source of each."""
        return np.searchsorted(self._source_ends, rows, "right").astype(np.int64)

    def _locate(self, row: int) -> tuple[Part, int]:
        size = len(self)
        if not -size <= row < size:
            raise IndexError(f"conversation {row} of {size:,}")
        row %= size
        place = int(np.searchsorted(self._ends, row, "right"))
        return self._open(place), row - int(self._starts[place])

    def _open(self, place: int) -> Part:
        part = self._parts[place]
        if part is None:
            part = self._parts[place] = Part(self._records[place].path)
        return part


def content_digest(fingerprints: Mapping[str, str]) -> str:
    """Hex SHA-256 over the fingerprints of all sources, in order."""
    return digest.of_json(list(fingerprints.items()))


def stored_source(
    name: str, folder: KeyedFolder, record: Record[StoreDetails], split: str
) -> StoredSource:
    """One split of a source's store; the caller has checked its files."""
    parts = (part[split] for part in record.details.parts if split in part)
    return StoredSource(
        name,
        tuple(StoredPart(folder.path / part.file, part.rows) for part in parts),
        record.details.digests[split],
    )
