"""The rows a normalizer will see: of a saved data set, all or a seeded sample, trees as paths."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline_lib import selection
from pipeline_lib.chats import trees
from pipeline_lib.downloads import registry, saved

READ_ROWS = 200
"""Rows that are Python objects at one time; parts of a store end at multiples of it."""


class ReadsRows(Protocol):
    """What is needed of a ``datasets.Dataset``: its length, and rows in columns."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: list[int], /) -> Mapping[str, list[Any]]: ...


@dataclass(frozen=True)
class Rows:
    """The rows of one source and the digest of their content.

    With ``tree``, rows are single messages, and what a normalizer gets as its row is one path
    of a message tree: ``{"messages": [row, row, ...]}``, root first.
    """

    data: ReadsRows
    fingerprint: str
    tree: bool = False


def open_rows(folder: Path, source: registry.Source, *, full: bool = False) -> Rows:
    """The rows of a saved data set, memory-mapped, with the columns of the registry only.

    ``NotSaved``, ``DamagedFile`` or ``ColumnError`` as ``saved.load`` has them.
    """
    dataset = saved.load(folder, source.columns, full=full)
    chosen = dataset.select_columns(list(source.columns))
    return Rows(chosen, saved.find(folder).fingerprint, source.group is not None)


class PickedRows:
    """The chosen rows of one source in order; ``limit`` -1 takes all of them.

    For a tree source, ``messages`` counts its messages by what became of them.
    """

    def __init__(self, name: str, rows: Rows, seed: int, limit: int) -> None:
        self._data = rows.data
        self._paths: list[list[int]] | None = None
        self.messages: dict[str, int] = {}
        count = len(rows.data)
        if rows.tree:
            self._paths, self.messages = trees.best_paths(rows.data[list(range(count))])
            count = len(self._paths)
        self._order = selection.sample(count, limit, seed, "limit", name)

    def __len__(self) -> int:
        return len(self._order)

    def block(self, start: int) -> Iterator[dict[str, Any]]:
        """At most ``READ_ROWS`` rows from a place in the order."""
        places = self._order[start : start + READ_ROWS].tolist()
        if self._paths is None:
            yield from _as_rows(self._data[places])
            return
        paths = [self._paths[place] for place in places]
        messages = _as_rows(self._data[[row for path in paths for row in path]])
        for path in paths:
            yield {"messages": [next(messages) for _ in path]}


def _as_rows(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
