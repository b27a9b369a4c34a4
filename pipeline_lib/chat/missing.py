"""Sources that a run asks for and does not get: an error, or a row that says so in every table.

What is missing is a mapping from the name of a source to the reason, one line. It is found at
several stages and goes with the conversations to the later ones.
"""

import difflib
import logging
import math
from collections.abc import Collection, Mapping, Sequence

from pipeline_lib.errors import MissingSources
from pipeline_lib.table import Cell, Table

NOTE = "note"
"""The column of a table that says which sources are missing, and why."""
_REASON_LENGTH = 160
_log = logging.getLogger(__name__)


def check_choice(
    chosen: Collection[str],
    registered: Collection[str],
    weights: Mapping[str, float],
    allow_missing: Collection[str] = (),
) -> None:
    """Check the names and weights of a run before it begins; ``ValueError`` names all faults.

    ``chosen``: the sources of the run, of all the ``registered`` ones. A weight may name any source
    that is registered; ``allow_missing`` only chosen ones. A weight is 0 or more, and finite.
    """
    wrong = [
        f"WEIGHTS names {name!r}, which is no source{_meant(name, registered)}"
        for name in weights
        if name not in registered
    ]
    wrong += [
        f"the weight of {name!r} is {weight!r}; expected a number, 0 or more"
        for name, weight in weights.items()
        if not isinstance(weight, int | float) or not 0 <= weight < math.inf
    ]
    wrong += wrongly_allowed(allow_missing, chosen)
    if wrong:
        raise ValueError("; ".join(wrong))


def wrongly_allowed(allow_missing: Collection[str], chosen: Collection[str]) -> list[str]:
    """What is wrong with the names of sources that may be missing."""
    if isinstance(allow_missing, str):
        return [
            f'ALLOW_MISSING is the text {allow_missing!r}; expected names: ("{allow_missing}",)'
        ]
    return [
        f"ALLOW_MISSING names {name!r}, which is not among the chosen sources{_meant(name, chosen)}"
        for name in allow_missing
        if name not in chosen
    ]


def _meant(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(str(name), known, 1)
    return f" (is it {close[0]!r}?)" if close else f"; there are {', '.join(known)}"


def accept(
    missing: Mapping[str, str], chosen: Collection[str], allow_missing: Collection[str]
) -> dict[str, str]:
    """What is missing, if a run may do without it; the log warns of each.

    ``MissingSources`` names all that it may not do without, with the reasons. ``ValueError`` if
    ``allow_missing`` names a source that is not chosen.
    """
    wrong = wrongly_allowed(allow_missing, chosen)
    if wrong:
        raise ValueError("; ".join(wrong))
    needed = [name for name in missing if name not in allow_missing]
    if needed:
        raise MissingSources(_refusal(missing, needed, len(chosen)))
    for name, reason in missing.items():
        _log.warning("WARNING: going on without %s, as it is allowed: %s", name, reason)
    return dict(missing)


def _refusal(missing: Mapping[str, str], needed: Sequence[str], chosen: int) -> str:
    reasons = "\n".join(f"  {name}: {missing[name]}" for name in needed)
    names = ", ".join(f'"{name}"' for name in missing)
    return (
        f"{len(needed)} of {chosen} sources that this run asks for are missing:\n{reasons}\n"
        "Do what it says there and run again, or take them out of the chosen sources. To go on "
        f"without them: ALLOW_MISSING = ({names},)"
    )


def with_notes(table: Table, notes: Mapping[str, str]) -> Table:
    """A table of sources with one more row for each source of ``notes``, and a column for them.

    Without notes it is the table itself. A source that is in the table keeps its row.
    """
    if not notes:
        return table
    there = set(table.column(table.columns[0]))
    rows: list[tuple[Cell, ...]] = [(*row, notes.get(str(row[0]), "")) for row in table.rows]
    empty = (None,) * (len(table.columns) - 1)
    rows += [(name, *empty, note) for name, note in notes.items() if name not in there]
    return Table((*table.columns, NOTE), tuple(rows))


def as_notes(missing: Mapping[str, str]) -> dict[str, str]:
    """The notes of a table for what is missing; a long reason is cut."""
    return {name: _cut(f"missing: {reason}") for name, reason in missing.items()}


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _REASON_LENGTH else f"{line[: _REASON_LENGTH - 3]}..."
