"""The project alone: what commits cost, how soon a resumed run works again, and its memory."""

import signal
from collections.abc import Sequence
from functools import partial
from typing import Any

from cache import clear, scratch
from inputs import TIMES, Inputs
from measure import Run, in_turns, measure, run
from tables import Row, change, median, show, spread

NONE = "none"
INTERVALS = {NONE: 1e9, "10 s": 10.0, "1 s": 1.0, "0.25 s": 0.25}
DEFAULT = 60.0
"""Seconds between commits where none are chosen."""
STARTS = {"fresh start": 0.0, "--resume at 10%": 0.1, "--resume at 90%": 0.9}
"""The share of the rows at which the run was killed before."""
SHARDS = (("N", 1, 100_000_000), ("N", 1, 1_000_000), (f"{TIMES} N", TIMES, 100_000_000))
"""Documents, how often the corpus is repeated for that, and the tokens of a shard."""


def commits(inputs: Inputs) -> None:
    """The same run with no commit between first and last, and with more and more of them.

    The corpus is repeated so that the run is long. What the default interval costs is derived: the
    seconds that each commit added to the run, over that interval.
    """
    long = inputs.repeated(TIMES)
    way = partial(long.program, "timed_prepare", rows=long.rows)
    ways = {name: partial(way, interval=seconds) for name, seconds in INTERVALS.items()}
    runs = in_turns(ways, inputs.repeat)
    title = f"commits: whole process, medians of {inputs.repeat} (lowest-highest)"
    show(title, [_commits_row(name, mine, runs[NONE]) for name, mine in runs.items()])


def _commits_row(name: str, runs: Sequence[Run], without: Sequence[Run]) -> Row:
    inside = [run.report["commits"][1:-2] for run in runs]  # the first and the last two always are
    wall, bare = (median(run.wall for run in some) for some in (runs, without))
    count = median(map(len, inside))
    each = median(sum(seconds) / max(len(seconds), 1) for seconds in inside)
    return {
        "interval": name,
        "commits": f"{count:.0f}",
        "wall s": spread((run.wall for run in runs), ".1f"),
        "against none": change(wall, bare),
        "ms in one": f"{each * 1e3:.0f}",
        f"derived for {DEFAULT:.0f} s": f"{(wall - bare) / count / DEFAULT:+.2%}" if count else "",
        "others' cores": f"{median(run.others for run in runs):.2f}",
    }


def resume(inputs: Inputs) -> None:
    """How long a run takes until work goes on after it was killed (SIGKILL).

    The time is from the start of the process to the first batch that is written. Restoring the
    shards, which hashes all of them, is taken off and shown apart.
    """
    reports: dict[str, list[dict[str, Any]]] = {name: [] for name in STARTS}
    for _ in range(inputs.repeat):
        for name, share in STARTS.items():
            reports[name].append(_start(inputs, share))
    title = f"resume: medians of {inputs.repeat} (lowest-highest)"
    show(title, [_resume_row(name, found) for name, found in reports.items()])


def _start(inputs: Inputs, share: float) -> dict[str, Any]:
    """What ``timed_prepare`` reports, and the bytes of the shards that were there before."""
    output = scratch("output")
    way = partial(inputs.program, "timed_prepare", rows=inputs.rows, interval=0.25, output=output)
    if share:
        run(way(kill_at=share), status=-signal.SIGKILL)
    unfinished = output.with_name(output.name + ".incomplete")
    shards = [*unfinished.glob("open/*.npy"), *unfinished.glob("payload/*.npy")]
    size = sum(path.stat().st_size for path in shards)
    report = measure(way(resume=bool(share))).report
    clear(output)
    return {**report, "size": size}


def _resume_row(name: str, reports: Sequence[dict[str, Any]]) -> Row:
    size, hashing = (median(one[what] for one in reports) for what in ("size", "hashing"))
    return {
        "start": name,
        "MB of shards": f"{size / 1e6:,.0f}" if size else "",
        "s to first batch written": spread(one["first_batch"] - one["hashing"] for one in reports),
        "s hashing beside": spread(one["hashing"] for one in reports) if size else "",
        "GB/s": f"{size / hashing / 1e9:.2f}" if size else "",
    }


def memory(inputs: Inputs) -> None:
    """Peak anonymous memory by shard size, and by the number of documents.

    Both corpora are written alike, because a reader's memory depends on the writer's row groups.
    """
    ways = {
        f"{documents} documents, shards of {tokens:,}": partial(
            inputs.repeated(times).prepare, shard_tokens=tokens
        )
        for documents, times, tokens in SHARDS
    }
    runs = in_turns(ways, inputs.repeat)
    first, *_ = (median(run.peak for run in mine) for mine in runs.values())
    title = f"memory: N = {inputs.rows:,}; peak anonymous memory, medians of {inputs.repeat}"
    show(title, [_memory_row(name, mine, first) for name, mine in runs.items()])


def _memory_row(name: str, runs: Sequence[Run], first: float) -> Row:
    return {
        "run": name,
        "MB (lowest-highest)": spread((run.peak / 1e6 for run in runs), ",.0f"),
        "against the first": change(median(run.peak for run in runs), first),
        "wall s": f"{median(run.wall for run in runs):.1f}",
    }
