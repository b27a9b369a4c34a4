"""How long ``--resume`` takes until work goes on, at 10 % and at 90 % of a run.

A run is killed (SIGKILL) at that share of its rows. Then a new process resumes it; the time runs
from its start to the first batch that is written, less the restoring of shards, which
hashes all of them and is shown apart.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import inputs
import machine
from tables import median, show, spread

INTERVAL = 0.25


class Resumed(NamedTuple):
    """Seconds to the first written batch, those in restoring shards, and bytes restored."""

    ready: float
    hashing: float
    size: int


def main() -> None:
    given = inputs.resolve(inputs.options(__doc__ or "").parse_args())
    print(machine.facts())
    shares = (0.1, 0.9)
    found: dict[float, list[Resumed]] = {share: [] for share in shares}
    fresh = []
    for _ in range(given.repeat):
        fresh.append(_fresh(given))
        for share in shares:
            found[share].append(_resumed(given, share))
    rows: list[tuple[object, ...]] = [("fresh start", "", f"{spread(fresh, float)}", "", "")]
    for share, mine in found.items():
        speed = median(mine, lambda one: one.size / max(one.hashing, 1e-9) / 1e9)
        rows.append((
            f"--resume at {share:.0%}",
            f"{median(mine, lambda one: one.size / 1e6):,.0f}",
            spread(mine, lambda one: one.ready - one.hashing),
            spread(mine, lambda one: one.hashing),
            f"{speed:.2f}",
        ))  # fmt: skip
    columns = ("start", "MB of shards", "s to first batch written", "s hashing beside", "GB/s")
    show(f"resume: medians of {given.repeat} (lowest-highest)", columns, rows)


def _command(given: inputs.Inputs, target: Path, *options: str) -> list[str | Path]:
    always = ["--output", target, "--corpus", given.corpus, "--column", given.column]
    always += ["--tokenizer", given.tokenizer, "--rows", str(given.rows)]
    return given.program("timed_prepare", *always, "--interval", str(INTERVAL), *options)


def _fresh(given: inputs.Inputs) -> float:
    target = given.empty("resumed")
    run = given.measure(_command(given, target), target)
    return float(json.loads(run.output)["first_batch"])


def _resumed(given: inputs.Inputs, share: float) -> Resumed:
    target = given.empty("resumed")
    command = [str(part) for part in _command(given, target, "--kill-at", str(share))]
    environment = {"PYTHONPATH": str(inputs.PROJECT)}
    killed = subprocess.run(command, env=environment, capture_output=True, text=True)
    if killed.returncode != -9:
        sys.exit(f"the run was to be killed, but ended with {killed.returncode}: {killed.stderr}")
    staging = target.with_name(target.name + ".incomplete")
    shards = [*staging.glob("open/*.npy"), *staging.glob("payload/*.npy")]
    size = sum(path.stat().st_size for path in shards)
    run = given.measure(_command(given, target, "--resume"))
    moments = json.loads(run.output)
    shutil.rmtree(target)
    return Resumed(moments["first_batch"], moments["hashing"], size)


if __name__ == "__main__":
    main()
