"""The rows that a normalizer gets: all rows of a saved data set or a seeded sample of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline_lib import selection
from pipeline_lib.chat import trees
from pipeline_lib.downloads import registry, saved
from pipeline_lib.records import DataRow

READ_ROWS = 200
"""Rows that are Python objects at the same time; parts of a store end at multiples of it."""

_TREE_ROWS = 5_000


class ReadsRows(Protocol):
    """The part of ``datasets.Dataset`` that is used: its length, and rows in columns."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: list[int], /) -> Mapping[str, list[Any]]: ...


@dataclass(frozen=True)
class SourceRows:
    """The rows of one source and the digest of their content.

    ``data``: the rows, as a ``datasets.Dataset``. With ``tree``, its rows are single messages, and
    a normalizer gets one path of a message tree as its row: ``{"messages": [row, row, ...],
    "worse": [...]}``, root first. ``worse`` is the same path with its last answer replaced by the
    worst-ranked one; it is empty if no other answer has a worse rank.
    """

    data: ReadsRows
    fingerprint: str
    tree: bool = False


def open_rows(folder: Path, source: registry.DatasetSpec, *, full: bool = False) -> SourceRows:
    """Open the rows of a saved data set, memory-mapped, with only the columns of ``source``.

    ``full``: also compare the SHA-256 of every file. ``NotSaved`` if there is no such folder,
    ``DamagedFile`` if a file is missing or differs from its record, ``ColumnError`` if a column is
    missing or has another type.
    """
    dataset = saved.load(folder, source.columns, full=full)
    chosen = dataset.select_columns(list(source.columns))
    return SourceRows(chosen, saved.find(folder).fingerprint, source.group is not None)


class PickedRows:
    """The selected rows of one source, in order; ``limit`` -1 takes all.

    For a tree source, ``messages`` counts its messages by their outcome.
    """

    def __init__(self, name: str, rows: SourceRows, seed: int, limit: int) -> None:
        self._data = rows.data
        self._paths: list[tuple[list[int], list[int]]] | None = None
        self.messages: dict[str, int] = {}
        count = len(rows.data)
        if rows.tree:
            found = trees.best_paths(_places(rows.data))
            self._paths = list(zip(found.paths, found.worse, strict=True))
            self.messages, count = found.counts, len(found.paths)
        self._order = selection.sample(count, limit, seed, "limit", name)

    def __len__(self) -> int:
        return len(self._order)

    def block(self, start: int) -> Iterator[DataRow]:
        """At most ``READ_ROWS`` rows, from position ``start`` of the order."""
        places = self._order[start : start + READ_ROWS].tolist()
        if self._paths is None:
            yield from _as_rows(self._data[places])
            return
        pairs = [self._paths[place] for place in places]
        messages = _as_rows(self._data[[row for pair in pairs for path in pair for row in path]])
        for pair in pairs:
            best, worse = ([next(messages) for _ in path] for path in pair)
            yield {"messages": best, "worse": worse}


def _places(data: ReadsRows) -> dict[str, list[Any]]:
    """The columns that decide the place of every message, read block by block.

    So the texts, which are read with them, are not in memory at the same time.
    """
    places: dict[str, list[Any]] = {name: [] for name in trees.TREE_COLUMNS}
    for start in range(0, len(data), _TREE_ROWS):
        block = data[list(range(start, min(start + _TREE_ROWS, len(data))))]
        for name, values in places.items():
            values += block[name]
    return places


def _as_rows(columns: Mapping[str, list[Any]]) -> Iterator[DataRow]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
