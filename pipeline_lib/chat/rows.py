"""The rows a normalizer will see: of a saved data set, all or a seeded sample, trees as paths."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline_lib import selection
from pipeline_lib.chat import trees
from pipeline_lib.downloads import registry, saved

READ_ROWS = 200
"""Rows that are Python objects at one time; parts of a store end at multiples of it."""

_TREE_ROWS = 5_000


class ReadsRows(Protocol):
    """What is needed of a ``datasets.Dataset``: its length, and rows in columns."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: list[int], /) -> Mapping[str, list[Any]]: ...


@dataclass(frozen=True)
class SourceRows:
    """The rows of one source and the digest of their content.

    With ``tree``, rows are single messages, and what a normalizer gets as its row is one path
    of a message tree: ``{"messages": [row, row, ...], "worse": [...]}``, root first. ``worse``
    is the same talk up to its last answer and then the answer that was ranked worst; it is empty
    where no other answer has a rank.
    """

    data: ReadsRows
    fingerprint: str
    tree: bool = False


def open_rows(folder: Path, source: registry.DatasetSpec, *, full: bool = False) -> SourceRows:
    """The rows of a saved data set, memory-mapped, with the columns of the registry only.

    ``NotSaved``, ``DamagedFile`` or ``ColumnError`` as ``saved.load`` has them.
    """
    dataset = saved.load(folder, source.columns, full=full)
    chosen = dataset.select_columns(list(source.columns))
    return SourceRows(chosen, saved.find(folder).fingerprint, source.group is not None)


class PickedRows:
    """The chosen rows of one source in order; ``limit`` -1 takes all of them.

    For a tree source, ``messages`` counts its messages by what became of them.
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

    def block(self, start: int) -> Iterator[dict[str, Any]]:
        """At most ``READ_ROWS`` rows from a place in the order."""
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
    """What decides the place of every message; texts are read and let go block by block."""
    places: dict[str, list[Any]] = {name: [] for name in trees.TREE_COLUMNS}
    for start in range(0, len(data), _TREE_ROWS):
        block = data[list(range(start, min(start + _TREE_ROWS, len(data))))]
        for name, values in places.items():
            values += block[name]
    return places


def _as_rows(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
