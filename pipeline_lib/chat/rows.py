"""The rows that a normalizer gets: all rows of a saved data set or a seeded sample of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

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

    ``data``: the rows, as a ``datasets.Dataset``, with the ``columns``, or all if none are named.
    ``fingerprint``: of the data set, with all its columns. With ``tree``, its rows are single
    messages, and a normalizer gets one path of a message tree as its row: ``{"messages": [row, row,
    ...], "worse": [...]}``, root first. ``worse`` is the same path with its last answer replaced by
    the worst-ranked one; it is empty if no other answer has a worse rank.
    """

    data: ReadsRows
    fingerprint: str
    tree: bool = False
    columns: tuple[str, ...] = ()


def open_rows(folder: Path, source: registry.DatasetSpec, *, full: bool = False) -> SourceRows:
    """Open the rows of a saved data set, memory-mapped, with only the columns of ``source``.

    ``full``: also compare the SHA-256 of every file. ``NotSaved`` if there is no such folder,
    ``DamagedFile`` if a file is missing or differs from its record, ``ColumnError`` if a column is
    missing or has another type.
    """
    dataset = saved.load(folder, source.columns, full=full)
    columns = list(source.columns)
    chosen = dataset.select_columns(columns)
    return SourceRows(chosen, saved.find(folder).fingerprint, source.group is not None, (*columns,))


class RowAddress(NamedTuple):
    """The rows of a data set that make one row of a normalizer.

    ``best``: the row itself; in a tree source, the rows of its path. ``worse``: those of the worse
    path.
    """

    best: tuple[int, ...]
    worse: tuple[int, ...] = ()


def read_rows(rows: SourceRows, addresses: Sequence[RowAddress]) -> Iterator[DataRow]:
    """The rows at some addresses."""
    if not addresses:
        return
    places = [row for address in addresses for path in address for row in path]
    found = _as_rows(rows.data[places])
    for address in addresses:
        if rows.tree:
            best, worse = ([next(found) for _ in path] for path in address)
            yield {"messages": best, "worse": worse}
        else:
            yield next(found)


class PickedRows:
    """The selected rows of one source, in order; ``limit`` -1 takes all.

    For a tree source, ``messages`` counts its messages by their outcome.
    """

    def __init__(self, name: str, rows: SourceRows, seed: int, limit: int) -> None:
        self._rows = rows
        self._paths: list[RowAddress] | None = None
        self.messages: dict[str, int] = {}
        count = len(rows.data)
        if rows.tree:
            found = trees.best_paths(_places(rows.data))
            pairs = zip(found.paths, found.worse, strict=True)
            self._paths = [RowAddress(tuple(best), tuple(worse)) for best, worse in pairs]
            self.messages, count = found.counts, len(found.paths)
        self._order = selection.sample(count, limit, seed, "limit", name)

    def __len__(self) -> int:
        return len(self._order)

    def addresses(self, start: int, stop: int) -> list[RowAddress]:
        """The addresses of the rows at positions ``start`` to ``stop`` of the order."""
        places = self._order[start:stop].tolist()
        if self._paths is None:
            return [RowAddress((place,)) for place in places]
        return [self._paths[place] for place in places]

    def address(self, place: int) -> RowAddress:
        """The address of the row at one position."""
        return self.addresses(place, place + 1)[0]

    def block(self, start: int, stop: int) -> Iterator[DataRow]:
        """The rows at positions ``start`` to ``stop`` of the order."""
        yield from read_rows(self._rows, self.addresses(start, stop))


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
