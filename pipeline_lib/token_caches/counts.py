"""The counts of a token cache, for each source."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.table import Cell, Table

Counts = dict[str, dict[str, int]]
"""Source -> name of the count -> number."""


def by_source(
    names: list[str], source: NDArray[np.int64], values: Mapping[str, NDArray[np.generic]]
) -> Counts:
    """For each source, the sums of ``values`` over its conversations.

    ``source``: the index in ``names`` of each conversation's source. ``values``: name of the count
    -> a number for each conversation.
    """
    counts: Counts = {name: {} for name in names}
    for label, amounts in values.items():
        sums = np.bincount(source, amounts, len(names)).astype(np.int64).tolist()
        for name, total in zip(names, sums, strict=True):
            counts[name][label] = total
    return counts


def added(old: Counts, new: Counts) -> Counts:
    """The sum of two counts, for each source and name."""
    merged = {source: dict(counts) for source, counts in old.items()}
    for source, counts in new.items():
        into = merged.setdefault(source, {})
        for label, count in counts.items():
            into[label] = into.get(label, 0) + count
    return merged


def counts_table(counts: Counts) -> Table:
    """A table with one row for each source and one column for each count."""
    columns = list(dict.fromkeys(label for found in counts.values() for label in found))
    rows: list[tuple[Cell, ...]] = [
        (name, *(found.get(label, 0) for label in columns)) for name, found in counts.items()
    ]
    return Table(("source", *columns), tuple(rows))
