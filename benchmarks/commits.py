"""What commits cost: the same run with none between first and last, and more and more of them.

The corpus is repeated (every copy numbered) so that the run is long. The cost of the default
cadence is derived: the seconds each commit added to the run, over the default interval.
"""

import dataclasses
import json
import shutil

import corpus
import inputs
import machine
from tables import median, show, spread

DEFAULT = 60.0
CADENCES = {"none": 1e9, "10 s": 10.0, "1 s": 1.0, "0.25 s": 0.25}


def main() -> None:
    given = inputs.resolve(inputs.options(__doc__ or "").parse_args())
    print(machine.facts())
    long = corpus.repeated(given.corpus, given.column, corpus.TIMES, inputs.CACHE)
    given = dataclasses.replace(given, corpus=long)
    runs: dict[str, list[machine.Run]] = {name: [] for name in CADENCES}
    for _ in range(given.repeat):
        for name, seconds in CADENCES.items():
            runs[name].append(_run(given, seconds))
    _show(runs)


def _run(given: inputs.Inputs, seconds: float) -> machine.Run:
    target = given.empty("committed")
    options = ["--output", target, "--corpus", given.corpus, "--column", given.column]
    options += ["--tokenizer", given.tokenizer, "--rows", str(given.rows)]
    options += ["--interval", str(seconds)]
    run = given.measure(given.program("timed_prepare", *options), target)
    shutil.rmtree(target)
    return run


def _show(runs: dict[str, list[machine.Run]]) -> None:
    def inside(run: machine.Run) -> list[float]:
        """Seconds of the commits within the run, without its first and its two last ones."""
        found: list[float] = json.loads(run.output)["commits"][1:-2]
        return found

    bare = median(runs["none"], lambda run: run.wall)
    rows = []
    for name, mine in runs.items():
        wall = median(mine, lambda run: run.wall)
        count = median(mine, lambda run: len(inside(run)))
        each = (wall - bare) / count if count else 0.0
        rows.append((
            name,
            f"{count:.0f}",
            spread(mine, lambda run: run.wall, ".1f"),
            f"{(wall / bare - 1) * 100:+.1f} %",
            f"{median(mine, lambda run: sum(inside(run)) / max(len(inside(run)), 1)) * 1e3:.0f}",
            f"{each / DEFAULT * 100:+.2f} %" if count else "",
            f"{median(mine, lambda run: run.others):.2f}",
        ))  # fmt: skip
    show(
        f"commits: whole process, medians of {len(runs['none'])} (lowest-highest)",
        ("interval", "commits", "wall s", "against none", "ms in one",
         f"derived for {DEFAULT:.0f} s", "others' cores"),
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
