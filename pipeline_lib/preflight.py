"""Will it fit? What a run would fetch, write and hold, against what the machine has left.

Nothing is fetched but metadata, and with the offline sample nothing at all. Disk is counted
at its peak: the Hub cache keeps what was fetched, the data folder holds all saved copies and,
while one source is being saved, its rows a second time. Each volume is counted apart.
"""

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline_lib import machine
from pipeline_lib.downloads import sizes
from pipeline_lib.downloads.plans import EVERYTHING, Order
from pipeline_lib.downloads.registry import Source
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.machine import Memory, Volume
from pipeline_lib.remote.patience import Patience
from pipeline_lib.table import Table

RUN_MEMORY = 1_500_000_000
"""Bytes a run holds: the libraries and bounded buffers, whatever the size of the sources."""
LIST_FACTORS = (2, 3)  # text in Python lists, against the same rows in Arrow
_QUICK = Patience(tries=2)  # a look ahead should not keep anyone waiting
_NOTE_WIDTH = 40
_UNITS = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True)
class DiskNeed:
    """What one volume must take at the peak, and what its old caches already hold."""

    volume: Volume
    needed: int
    purposes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether it is free."""
        return self.needed <= self.volume.free


@dataclass(frozen=True)
class Preflight:
    """Sizes of all sources, what they add up to, and warnings; ``str`` is a table."""

    sizes: tuple[Size, ...]
    disks: tuple[DiskNeed, ...]
    memory: Memory
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
    def unknown(self) -> tuple[str, ...]:
        """Names of the sources whose size is not known: then every total is a lower bound."""
        return tuple(size.name for size in self.sizes if not size.known)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each thing that does not fit or is not known."""
        lines = [
            f"WARNING: {_bytes(disk.needed)} are needed on the volume of {disk.volume.folder} "
            f"({', '.join(disk.purposes)}), {_bytes(disk.volume.free)} are free"
            for disk in self.disks
            if not disk.fits
        ]
        if self.memory.available < RUN_MEMORY:
            whose = "the container's limit leaves" if self.memory.container else "the machine has"
            lines.append(
                f"WARNING: a run holds about {_bytes(RUN_MEMORY)} in memory, "
                f"{whose} {_bytes(self.memory.available)}"
            )
        if self.unknown:
            lines.append(
                f"WARNING: size unknown: {', '.join(self.unknown)}; every total is a lower bound"
            )
        lines += [f"WARNING: {s.name}: {s.note}" for s in self.sizes if len(s.note) > _NOTE_WIDTH]
        return tuple(lines)

    @property
    def fits(self) -> bool:
        """Whether disk and memory suffice for all that is known."""
        return all(disk.fits for disk in self.disks) and self.memory.available >= RUN_MEMORY

    @property
    def table(self) -> Table:
        """One row a source, and the total."""
        known = [
            (size.name, size.rows, _bytes(size.network), _bytes(size.saved), _short(size.note))
            for size in self.sizes
        ]
        total = ("total", None, _bytes(self.network), _bytes(self.saved), self._bound())
        return Table(("source", "rows", "to fetch", "saved copy", "how known"), (*known, total))

    def _bound(self) -> str:
        return "lower bound" if self.unknown else ""

    def _lines(self) -> list[str]:
        least = "at least " if self.unknown else ""
        low, high = (_bytes(factor * self.saved) for factor in LIST_FACTORS)
        whose = "under the container's limit" if self.memory.container else "on this machine"
        limit = "all rows" if self.limit == EVERYTHING else f"{self.limit:,} rows of each source"
        return [
            f"for {limit}:",
            f"network      {least}{_bytes(self.network)}",
            *(
                f"disk         {least}{_bytes(disk.needed)} at peak "
                f"({', '.join(disk.purposes)}); {_bytes(disk.volume.free)} free on the volume "
                f"of {disk.volume.folder}"
                for disk in self.disks
            ),
            f"old caches   {_bytes(self.old_caches)} are held by caches made before",
            f"memory       {_bytes(RUN_MEMORY)} for the run, which reads from disk; "
            f"{_bytes(self.memory.available)} available {whose}",
            f"             (listing every row in Python would take {low} to {high})",
            *self.warnings,
            self._verdict(),
        ]

    def _verdict(self) -> str:
        if not self.fits:
            return "it does not fit"
        return "what is known fits" if self.unknown else "it fits"

    def __str__(self) -> str:
        return "\n".join([str(self.table), "", *self._lines()])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def preflight(
    sources: Mapping[str, Source],
    data_dir: Path,
    *,
    sample: bool = False,
    order: Order | None = None,
    root: Path = Path("/"),
) -> Preflight:
    """Sizes of the sources for a run of at most ``order.limit`` rows of each.

    With ``sample`` the offline sample is meant and the network is not used. ``root`` is where
    the kernel's files are read for the memory limits.
    """
    order = order or Order(patience=_QUICK)
    found = [
        sizes.size_on_disk(name, data_dir / name, order.limit)
        or (sizes.size_of_sample(name) if sample else sizes.size_on_hub(name, source, order))
        for name, source in sources.items()
    ]
    if sample:
        found.append(sizes.size_of_corpus(data_dir))
    return Preflight(
        tuple(found),
        _disk_needs(found, data_dir),
        machine.available_memory(root),
        machine.folder_bytes(data_dir / "cache"),
        order.limit,
    )


def _disk_needs(found: Sequence[Size], data_dir: Path) -> tuple[DiskNeed, ...]:
    """What each volume must take at once."""
    new = [size for size in found if not size.present]
    copies = [size.saved or 0 for size in new]
    places = [
        (data_dir, sum(copies) + max(copies, default=0), "saved copies"),
        (_hub_cache(), sum(size.network or 0 for size in new), "fetched files"),
        (_datasets_cache(), sum(size.extra for size in new), "cache of datasets"),
    ]
    needs: dict[int, DiskNeed] = {}
    for path, needed, purpose in places:
        if not needed and path is not data_dir:
            continue
        volume = machine.volume_of(path)
        so_far = needs.get(volume.device, DiskNeed(volume, 0, ()))
        needs[volume.device] = DiskNeed(
            so_far.volume, so_far.needed + needed, (*so_far.purposes, purpose)
        )
    return tuple(needs.values())


def _home() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME") or cache / "huggingface")


def _hub_cache() -> Path:
    return Path(os.environ.get("HF_HUB_CACHE") or _home() / "hub")


def _datasets_cache() -> Path:
    return Path(os.environ.get("HF_DATASETS_CACHE") or _home() / "datasets")


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
