"""The report of a prediction, for a person: two tables, totals, warnings and a verdict."""

import html
from dataclasses import dataclass
from typing import NamedTuple

from pipeline_lib.downloads.plans import EVERYTHING
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.preflight.disk import DiskNeed, Stage
from pipeline_lib.table import Cell, Table

LIST_FACTORS = (2, 3)  # text in Python lists, against the same rows in Arrow
_NOTE_WIDTH = 40
_UNITS = ("B", "KB", "MB", "GB", "TB")


class StageNeed(NamedTuple):
    """One stage: bytes it adds to disk, bytes added by then at its peak, memory at its peak."""

    name: Stage
    writes: int
    disk: int
    memory: int


@dataclass(frozen=True)
class Preflight:
    """The needs of a run by source, stage and volume; ``str`` gives the whole report.

    ``available_memory``: bytes that this process may hold, with those it holds already;
    ``in_container``: whether a container sets this bound. ``old_caches``: bytes of caches that the
    run does not use. ``limit``: rows of each source, -1 for all.
    """

    sizes: tuple[Size, ...]
    stages: tuple[StageNeed, ...]
    disks: tuple[DiskNeed, ...]
    available_memory: int
    in_container: bool
    old_caches: int
    limit: int

    @property
    def network(self) -> int:
        """Bytes to fetch, where known."""
        return sum(size.network or 0 for size in self.sizes)

    @property
    def saved(self) -> int:
        """Bytes of all saved copies, where known; copies that are on disk count too."""
        return sum(size.saved or 0 for size in self.sizes)

    @property
    def needed_memory(self) -> int:
        """Bytes that the run holds at its peak."""
        return max((stage.memory for stage in self.stages), default=0)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Sources of unknown size; if there are any, every total is a lower bound."""
        return tuple(size.name for size in self.sizes if not size.known)

    @property
    def fits(self) -> bool:
        """Whether disk and memory suffice for all known needs."""
        return all(fits for _, _, fits in self._needs())

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for each need that does not fit, for unknown sizes, and for each long note."""
        lines = [f"too little {name}: {need}" for name, need, fits in self._needs() if not fits]
        if self.unknown:
            lines.append(f"size unknown: {', '.join(self.unknown)}; every total is a lower bound")
        lines += [f"{s.name}: {s.note}" for s in self.sizes if len(s.note) > _NOTE_WIDTH]
        return tuple(f"WARNING: {line}" for line in lines)

    @property
    def table(self) -> Table:
        """A row for each source, and the total."""
        rows: list[tuple[Cell, ...]] = [
            (s.name, s.rows, _bytes(s.network), _bytes(s.saved), _short(s.note)) for s in self.sizes
        ]
        bound = "lower bound" if self.unknown else ""
        rows.append(("total", None, _bytes(self.network), _bytes(self.saved), bound))
        return Table(("source", "rows", "to fetch", "saved copy", "how known"), tuple(rows))

    @property
    def stage_table(self) -> Table:
        """A row for each stage."""
        rows = ((s.name, _bytes(s.writes), _bytes(s.disk), _bytes(s.memory)) for s in self.stages)
        return Table(("stage", "writes", "disk by then", "memory"), tuple(rows))

    def _needs(self) -> list[tuple[str, str, bool]]:
        """Disk and memory: the name, the need in words, whether it fits."""
        largest = max(self.stages, key=lambda stage: stage.memory)
        whose = "under the container's limit" if self.in_container else "on this machine"
        needs = [
            ("disk", d.needed, _purposes(d), d.volume.free, f"on the volume of {d.volume.folder}")
            for d in self.disks
        ]
        needs.append(("memory", self.needed_memory, largest.name, self.available_memory, whose))
        least = "at least " if self.unknown else ""
        return [
            (
                name,
                f"{least}{_bytes(need)} at peak ({use}); {_bytes(free)} available {at}",
                need <= free,
            )
            for name, need, use, free, at in needs
        ]

    def __str__(self) -> str:
        limit = "all rows" if self.limit == EVERYTHING else f"{self.limit:,} rows of each source"
        least, fits = ("at least ", "all that is known fits") if self.unknown else ("", "it fits")
        low, high = (_bytes(factor * self.saved) for factor in LIST_FACTORS)
        lines = [
            f"{self.table}\n\n{self.stage_table}\n",
            f"for {limit}, without files that are there already:",
            f"network      {least}{_bytes(self.network)}",
            *(f"{name:<13}{need}" for name, need, _ in self._needs()),
            f"             (rows are read from disk; lists of all rows would take {low} to {high})",
            f"old caches   {_bytes(self.old_caches)} that this run does not use",
            *self.warnings,
            fits if self.fits else "it does not fit",
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _purposes(disk: DiskNeed) -> str:
    shown = (f"{purpose} {_bytes(size)}" for purpose, size in disk.purposes.items())
    return ", ".join(shown) or "nothing is left to write"


def _short(note: str) -> str:
    return note if len(note) <= _NOTE_WIDTH else f"{note[: _NOTE_WIDTH - 4]} ..."


def _bytes(count: int | None) -> str:
    """A size for people, in decimal units; ``?`` if unknown."""
    if count is None:
        return "?"
    unit = min((len(str(count)) - 1) // 3, len(_UNITS) - 1)
    return f"{count / 1000**unit:.{min(unit, 1)}f} {_UNITS[unit]}"
