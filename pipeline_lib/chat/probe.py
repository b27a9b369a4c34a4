"""The running probe: does a normalizer still give what is stored?

A key says which code ran; it can miss what the code does not show. So some rows of each source,
picked by a seed from all rows, are normalised again, and the digests of their whole results are
compared. This catches whatever changes the results, wherever the change is.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pipeline_lib import digest, selection
from pipeline_lib.chat.row_results import RowResult
from pipeline_lib.chat.rows import RowAddress, SourceRows, read_rows
from pipeline_lib.chat.store_record import ProbedRow
from pipeline_lib.records import DataRow

GOAL, LEAST = 128, 64
"""Rows of a source that are recorded, and rows that a first run normalises twice at any cost."""
SECONDS = 2.0
"""After this time no further row is begun."""


class OtherResult(NamedTuple):
    """A row that gives another result than the recorded one.

    ``row``: its number in the data set. ``repeats``: whether it gives the new result twice.
    """

    row: int
    old: str
    new: str
    repeats: bool


class ProbeOutcome(NamedTuple):
    """The number of rows that were run again, and the first difference."""

    tried: int
    difference: OtherResult | None = None


def picked_places(count: int, seed: int, name: str) -> frozenset[int]:
    """The places of the rows to record, of ``count`` rows; spread over all of them."""
    return frozenset(selection.sample(count, GOAL, seed, "probe", name).tolist())


def probed(address: RowAddress, result: RowResult) -> ProbedRow:
    """The record of a row's result."""
    return ProbedRow(address.best, address.worse, result.digest, result.shown)


def run_again(
    recorded: Iterable[ProbedRow],
    rows: SourceRows,
    normalised: Callable[[DataRow], RowResult],
    clock: Callable[[], float],
    least: int = 1,
) -> ProbeOutcome:
    """Normalise recorded rows again, until one differs or ``SECONDS`` have passed.

    ``least``: rows that are run whatever time they take. The order is that of a digest, so any
    number of rows is a fair sample.
    """
    ends, tried = clock() + SECONDS, 0
    for tried, row in enumerate(sorted(recorded, key=_order), 1):
        again = _result(row, rows, normalised)
        if again.digest != row.digest:
            repeats = _result(row, rows, normalised).digest == again.digest
            return ProbeOutcome(tried, OtherResult(row.best[0], row.shown, again.shown, repeats))
        if tried >= least and clock() >= ends:
            break
    return ProbeOutcome(tried)


def _order(row: ProbedRow) -> str:
    return digest.of_json([row.best, row.digest])


def _result(
    row: ProbedRow, rows: SourceRows, normalised: Callable[[DataRow], RowResult]
) -> RowResult:
    (data,) = read_rows(rows, [RowAddress(row.best, row.worse)])
    return normalised(data)
