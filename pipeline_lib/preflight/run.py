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
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.hub.retry import RetryPolicy
from pipeline_lib.preflight.amounts import CorpusSize, SizingParameters, expect
from pipeline_lib.preflight.corpus_size import hub_corpus, sample_corpus
from pipeline_lib.preflight.disk import DATA, DATASETS, HUB, STAGES, Write, writes
from pipeline_lib.preflight.memory import holds
from pipeline_lib.preflight.report import DiskNeed, Preflight, StageNeed
from pipeline_lib.preflight.reuse import Made, find_made

_QUICK = RetryPolicy(tries=2)  # a look ahead should not keep anyone waiting


def run_preflight(
    sources: Mapping[str, DatasetSpec],
    data_dir: Path,
    run: SizingParameters,
    *,
    sample: bool = False,
    options: FetchOptions | None = None,
    root: Path = Path("/"),
) -> Preflight:
    """What a run needs of at most ``options.limit`` rows of each source.

    With ``sample`` the offline sample is meant and the network is not used. ``root`` is where
    the kernel's files are read for the memory limits.
    """
    options = options or FetchOptions(retries=_QUICK)
    found = [
        sizes.size_on_disk(name, data_dir / name, options.limit, source.columns)
        or (sizes.size_of_sample(name) if sample else sizes.size_on_hub(name, source, options))
        for name, source in sources.items()
    ]
    made = find_made(found, data_dir, run, options)
    corpus = sample_corpus(data_dir) if sample else _hub_corpus(run, made, options)
    text = CorpusSize(corpus.text or 0, corpus.rows or 1) if corpus else CorpusSize()
    expected = expect(found, sources, run, text, options.limit)
    found += [corpus] if corpus else []
    steps = writes(found, expected, made)
    return Preflight(
        tuple(found),
        _stages(steps, holds(found, expected, made)),
        _disk_needs(steps, data_dir),
        machine.available_memory(root),
        machine.held_memory(root),
        machine.folder_bytes(data_dir / "cache") - made.cached,
        options.limit,
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


def _hub_corpus(run: SizingParameters, made: Made, options: FetchOptions) -> Size | None:
    if run.corpus is None or "shards" in made.complete:
        return None
    return hub_corpus(run, options)
