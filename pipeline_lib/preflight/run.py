"""Will it fit? The needs of a run, compared with the free disk and memory of this machine.

Only metadata is fetched, and nothing at all for the offline sample. Each stage is predicted: its
writes, the disk by then, its memory. Each volume is counted apart, at its fullest moment.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline_lib import machine
from pipeline_lib.downloads import sizes
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.hub.retry import RetryPolicy
from pipeline_lib.preflight.amounts import SizingParameters, expect
from pipeline_lib.preflight.corpus_size import hub_corpus, sample_corpus
from pipeline_lib.preflight.disk import Stage, Write, disk_needs, peak, writes
from pipeline_lib.preflight.memory import memory_peaks
from pipeline_lib.preflight.report import Preflight, StageNeed
from pipeline_lib.preflight.reuse import SHARDS, find_reusable
from pipeline_lib.sampledata.sizes import size_of_sample

_QUICK = RetryPolicy(tries=2)  # a prediction should not keep anyone waiting


def run_preflight(
    sources: Mapping[str, DatasetSpec],
    data_dir: Path,
    parameters: SizingParameters,
    *,
    sample: bool = False,
    options: FetchOptions | None = None,
    root: Path = Path("/"),
) -> Preflight:
    """Predict the needs of a run over at most ``options.limit`` rows of each source.

    ``sample``: the run uses the offline sample, and no network is used. ``root``: the folder that
    holds ``proc`` and ``sys``, where the kernel states the limits of memory.
    """
    options = options or FetchOptions(retries=_QUICK)
    found = [
        sizes.size_on_disk(name, data_dir / name, options.limit, spec.columns)
        or (size_of_sample(name) if sample else sizes.size_on_hub(name, spec, options))
        for name, spec in sources.items()
    ]
    reusable = find_reusable(found, data_dir, parameters, options)
    corpus = sample_corpus(data_dir) if sample else None
    if not sample and parameters.corpus is not None and not reusable[SHARDS].complete:
        corpus = hub_corpus(parameters, options)
    amounts = expect(found, corpus, sources, parameters, options.limit, sample=sample)
    found += [corpus] if corpus else []
    steps, memory = writes(found, amounts, reusable), machine.available_memory(root)
    return Preflight(
        tuple(found),
        _stages(steps, memory_peaks(found, amounts, reusable)),
        disk_needs(steps, data_dir),
        memory.available + machine.held_memory(root),
        memory.container,
        old_caches=machine.folder_bytes(data_dir / "cache") - reusable.cached,
        limit=options.limit,
    )


def _stages(steps: Sequence[Write], memory: Mapping[Stage, int]) -> tuple[StageNeed, ...]:
    stages, before = list[StageNeed](), 0
    for name, held in memory.items():
        mine = [step for step in steps if step.stage == name]
        added = sum(step.kept for step in mine)
        stages.append(StageNeed(name, added, before + peak(mine), held))
        before += added
    return tuple(stages)
