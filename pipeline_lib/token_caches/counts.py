"""What a token cache counted while it was made, for each source."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.table import Cell, Table

Counts = dict[str, dict[str, int]]
"""Source -> what was counted -> how often."""


def by_source(
    names: list[str], source: NDArray[np.int64], values: Mapping[str, NDArray[np.generic]]
) -> Counts:
    """The sums of each kind of values over the conversations of each source.

    ``source``: of each conversation, the place of its source in ``names``.
    """
    counts: Counts = {name: {} for name in names}
    for what, amounts in values.items():
        sums = np.bincount(source, amounts, len(names)).astype(np.int64).tolist()
        for name, total in zip(names, sums, strict=True):
            counts[name][what] = total
    return counts


def added(old: Counts, new: Counts) -> Counts:
    """The sum of two counts, of each thing for each source."""
    merged = {source: dict(counts) for source, counts in old.items()}
    for source, counts in new.items():
        into = merged.setdefault(source, {})
        for what, count in counts.items():
            into[what] = into.get(what, 0) + count
    return merged


def counts_table(counts: Counts) -> Table:
    """One row a source, one column for each thing that was counted."""
    columns = list(dict.fromkeys(what for found in counts.values() for what in found))
    rows: list[tuple[Cell, ...]] = [
        (name, *(found.get(what, 0) for what in columns)) for name, found in counts.items()
    ]
    return Table(("source", *columns), tuple(rows))
