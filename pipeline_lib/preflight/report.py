"""What a look ahead found, as two tables and a few lines a person reads, with warnings."""

import html
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline_lib.downloads.plans import EVERYTHING
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.machine import Memory, Volume
from pipeline_lib.table import Cell, Table

LIST_FACTORS = (2, 3)  # text in Python lists, against the same rows in Arrow
_NOTE_WIDTH = 40
_UNITS = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True)
class DiskNeed:
    """What one volume must take at the peak, and the bytes of each purpose, none of it there."""

    volume: Volume
    needed: int
    purposes: Mapping[str, int]

    @property
    def fits(self) -> bool:
        """Whether it is free."""
        return self.needed <= self.volume.free


@dataclass(frozen=True)
class StageNeed:
    """One stage: bytes it adds to disk, bytes added by then at its peak, memory at its peak."""

    name: str
    writes: int
    disk: int
    memory: int


@dataclass(frozen=True)
class Preflight:
    """Sizes of all sources, what each stage needs, and warnings; ``str`` is two tables."""

    sizes: tuple[Size, ...]
    stages: tuple[StageNeed, ...]
    disks: tuple[DiskNeed, ...]
    memory: Memory
    held: int
    old_caches: int
    limit: int

    @property
    def network(self) -> int:
        """Bytes to fetch, where known."""
        return sum(size.network or 0 for size in self.sizes)

    @property
    def saved(self) -> int:
        """Bytes of all saved copies, those on disk included, where known."""
        return sum(size.saved or 0 for size in self.sizes)

    @property
    def needed_memory(self) -> int:
        """Bytes a run holds at its peak."""
        return max((stage.memory for stage in self.stages), default=0)

    @property
    def available_memory(self) -> int:
        """Bytes this process may hold: what is left, and what it holds already."""
        return self.memory.available + self.held

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the sources whose size is not known: then every total is a lower bound."""
        return tuple(size.name for size in self.sizes if not size.known)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each thing that does not fit or is not known."""
        lines = [
            f"WARNING: {_bytes(disk.needed)} are needed on the volume of {disk.volume.folder} "
            f"({_purposes(disk)}), {_bytes(disk.volume.free)} are free"
            for disk in self.disks
            if not disk.fits
        ]
        if not self._memory_fits:
            whose = "the container's limit leaves" if self.memory.container else "the machine has"
            lines.append(f"WARNING: {self._memory_line()}, {whose} {_bytes(self.available_memory)}")
        if self.unknown:
            lines.append(
                f"WARNING: size unknown: {', '.join(self.unknown)}; every total is a lower bound"
            )
        lines += [f"WARNING: {s.name}: {s.note}" for s in self.sizes if len(s.note) > _NOTE_WIDTH]
        return tuple(lines)

    @property
    def fits(self) -> bool:
        """Whether disk and memory suffice for all that is known."""
        return all(disk.fits for disk in self.disks) and self._memory_fits

    @property
    def _memory_fits(self) -> bool:
        return self.needed_memory <= self.available_memory

    @property
    def table(self) -> Table:
        """One row a source, and the total."""
        known = [
            (size.name, size.rows, _bytes(size.network), _bytes(size.saved), _short(size.note))
            for size in self.sizes
        ]
        bound = "lower bound" if self.unknown else ""
        total = ("total", None, _bytes(self.network), _bytes(self.saved), bound)
        return Table(("source", "rows", "to fetch", "saved copy", "how known"), (*known, total))

    @property
    def stage_table(self) -> Table:
        """One row a stage."""
        rows: list[tuple[Cell, ...]] = [
            (s.name, _bytes(s.writes), _bytes(s.disk), _bytes(s.memory)) for s in self.stages
        ]
        return Table(("stage", "writes", "disk by then", "memory"), tuple(rows))

    def _memory_line(self) -> str:
        largest = max(self.stages, key=lambda stage: stage.memory)
        return f"a run holds about {_bytes(largest.memory)} in memory at its peak, {largest.name}"

    def _lines(self) -> list[str]:
        least = "at least " if self.unknown else ""
        low, high = (_bytes(factor * self.saved) for factor in LIST_FACTORS)
        whose = "under the container's limit" if self.memory.container else "on this machine"
        limit = "all rows" if self.limit == EVERYTHING else f"{self.limit:,} rows of each source"
        return [
            f"for {limit}, beside what is there already:",
            f"network      {least}{_bytes(self.network)}",
            *(
                f"disk         {least}{_bytes(disk.needed)} at peak "
                f"({_purposes(disk)}); {_bytes(disk.volume.free)} free on the volume "
                f"of {disk.volume.folder}"
                for disk in self.disks
            ),
            f"old caches   {_bytes(self.old_caches)} are held by caches made before",
            f"memory       {least}{_bytes(self.needed_memory)} at peak for the run, which reads "
            f"from disk; {_bytes(self.available_memory)} available {whose}",
            f"             (listing every row in Python would take {low} to {high})",
            *self.warnings,
            self._verdict(),
        ]

    def _verdict(self) -> str:
        if not self.fits:
            return "it does not fit"
        return "what is known fits" if self.unknown else "it fits"

    def __str__(self) -> str:
        return "\n".join([str(self.table), "", str(self.stage_table), "", *self._lines()])

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
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
