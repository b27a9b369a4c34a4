"""Peak anonymous memory: by shard size, and by the number of documents.

The larger corpus is the same one ten times over, every copy numbered; both are written alike,
because a reader's memory depends on the writer's row groups.
"""

import dataclasses
import shutil

import corpus
import inputs
import machine
from tables import median, show


def main() -> None:
    given = inputs.resolve(inputs.options(__doc__ or "").parse_args())
    print(machine.facts())
    once, larger = (
        dataclasses.replace(
            given, corpus=corpus.repeated(given.corpus, given.column, times, inputs.CACHE)
        )
        for times in (1, corpus.TIMES)
    )
    cases = {
        "N documents, shards of 100,000,000": (once, "100000000"),
        "N documents, shards of 1,000,000": (once, "1000000"),
        f"{corpus.TIMES} N documents, shards of 100,000,000": (larger, "100000000"),
    }
    runs: dict[str, list[machine.Run]] = {name: [] for name in cases}
    for _ in range(given.repeat):
        for name, (these, shard_tokens) in cases.items():
            target = given.empty("prepared")
            command = these.ours(target, "--shard-tokens", shard_tokens)
            runs[name].append(these.measure(command, target))
            shutil.rmtree(target)
    base = median(next(iter(runs.values())), lambda run: run.peak)
    show(
        f"memory: N = {given.rows:,}; peak anonymous memory, medians of {given.repeat}",
        ("run", "MB (lowest-highest)", "against the first", "wall s"),
        [
            (
                name,
                f"{median(mine, lambda run: run.peak) / 1e6:,.0f} "
                f"({min(run.peak for run in mine) / 1e6:,.0f}-"
                f"{max(run.peak for run in mine) / 1e6:,.0f})",
                f"{(median(mine, lambda run: run.peak) / base - 1) * 100:+.1f} %",
                f"{median(mine, lambda run: run.wall):.1f}",
            )
            for name, mine in runs.items()
        ],
    )


if __name__ == "__main__":
    main()
