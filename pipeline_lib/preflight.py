"""Will it fit? What a run would fetch, write and hold, against what the machine has left.

Nothing is fetched but metadata, and with the offline sample nothing at all. Every stage is
looked at: what it writes, how full the disk is by then, what it holds in memory. Each volume is
counted apart, at its peak; what is there already is not counted again.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline_lib import machine
from pipeline_lib.downloads import sizes
from pipeline_lib.downloads.plans import Order
from pipeline_lib.downloads.registry import Source
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.fit.corpus import hub_corpus, sample_corpus
from pipeline_lib.fit.expected import Corpus, Run, expect
from pipeline_lib.fit.holds import holds
from pipeline_lib.fit.made import Made, find_made
from pipeline_lib.fit.report import DiskNeed, Preflight, StageNeed
from pipeline_lib.fit.writes import DATA, DATASETS, HUB, STAGES, Write, writes
from pipeline_lib.remote.patience import Patience

__all__ = ["DiskNeed", "Preflight", "Run", "StageNeed", "preflight"]

_QUICK = Patience(tries=2)  # a look ahead should not keep anyone waiting


def preflight(
    sources: Mapping[str, Source],
    data_dir: Path,
    run: Run,
    *,
    sample: bool = False,
    order: Order | None = None,
    root: Path = Path("/"),
) -> Preflight:
    """What a run needs of at most ``order.limit`` rows of each source.

    With ``sample`` the offline sample is meant and the network is not used. ``root`` is where
    the kernel's files are read for the memory limits.
    """
    order = order or Order(patience=_QUICK)
    found = [
        sizes.size_on_disk(name, data_dir / name, order.limit, source.columns)
        or (sizes.size_of_sample(name) if sample else sizes.size_on_hub(name, source, order))
        for name, source in sources.items()
    ]
    made = find_made(found, data_dir, run, order)
    corpus = sample_corpus(data_dir) if sample else _hub_corpus(run, made, order)
    text = Corpus(corpus.text or 0, corpus.rows or 1) if corpus else Corpus()
    expected = expect(found, sources, run, text, order.limit)
    found += [corpus] if corpus else []
    steps = writes(found, expected, made)
    return Preflight(
        tuple(found),
        _stages(steps, holds(found, expected, made)),
        _disk_needs(steps, data_dir),
        machine.available_memory(root),
        machine.held_memory(root),
        machine.folder_bytes(data_dir / "cache") - made.cached,
        order.limit,
    )


def _stages(steps: Sequence[Write], memory: Mapping[str, int]) -> tuple[StageNeed, ...]:
    found, before = [], 0
    for name in STAGES:
        mine = [step for step in steps if step.stage == name]
        if name in memory:
            added = sum(step.kept for step in mine)
            found.append(StageNeed(name, added, before + _peak(mine), memory[name]))
            before += added
    return tuple(found)


def _peak(steps: Sequence[Write]) -> int:
    """The most that steps one after another hold at once."""
    there = highest = 0
    for step in steps:
        there += step.kept
        highest = max(highest, there + step.passing)
    return highest


def _disk_needs(steps: Sequence[Write], data_dir: Path) -> tuple[DiskNeed, ...]:
    """What each volume must take at once; the data folder's is always among them."""
    places = {DATA: data_dir, HUB: _hub_cache(), DATASETS: _datasets_cache()}
    volumes = {place: machine.volume_of(path) for place, path in places.items()}
    used = {volumes[place].device: volumes[place] for place in (DATASETS, HUB, DATA)}
    needs = []
    for device, volume in reversed(used.items()):
        mine = [step for step in steps if volumes[step.place].device == device]
        if mine or device == volumes[DATA].device:
            purposes = dict.fromkeys((step.purpose for step in mine), 0)
            for step in mine:
                purposes[step.purpose] += step.kept
            needs.append(DiskNeed(volume, _peak(mine), purposes))
    return tuple(needs)


def _home() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME") or cache / "huggingface")


def _hub_cache() -> Path:
    return Path(os.environ.get("HF_HUB_CACHE") or _home() / "hub")


def _datasets_cache() -> Path:
    return Path(os.environ.get("HF_DATASETS_CACHE") or _home() / "datasets")


def _hub_corpus(run: Run, made: Made, order: Order) -> Size | None:
    if run.corpus is None or "shards" in made.complete:
        return None
    return hub_corpus(run, order)
