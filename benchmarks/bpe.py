"""Training a byte-level BPE of 32,000 ids: the project's function beside ``tokenizers``' trainer.

Both read the same texts in the same order; merges are compared. The project cuts runs of hundreds
of characters without a space; the other trainer gets its texts with those cuts already made.
"""

import json
import shutil

import inputs
import machine
from tables import median, megabytes, show, spread

SIZES = (30_000_000, 60_000_000, 120_000_000)


def main() -> None:
    given = inputs.resolve(inputs.options(__doc__ or "").parse_args())
    print(machine.facts())
    rows: list[tuple[object, ...]] = []
    for size in SIZES:
        rows += _rows(given, size)
    columns = ("texts", "trainer", "train s", "speed", "CPU s", "peak anon MB", "merges")
    title = f"bpe: {inputs.CHAT_VOCABULARY:,} ids; medians of {given.repeat} (lowest-highest)"
    show(title, (*columns, "others' cores"), rows)


def _rows(given: inputs.Inputs, size: int) -> list[tuple[object, ...]]:
    ways = {"this project": "ours", "tokenizers": "reference"}
    runs: dict[str, list[machine.Run]] = {name: [] for name in ways}
    merges = {}
    for _ in range(given.repeat):
        for name, kind in ways.items():
            target = given.empty("trained")
            options = ["--corpus", given.corpus, "--column", given.column, "--output", target]
            options += ["--kind", kind, "--bytes", str(size)]
            options += ["--vocabulary", str(inputs.CHAT_VOCABULARY)]
            runs[name].append(given.measure(given.program("bpe_train", *options), target))
            merges[name] = json.loads((target / "tokenizer.json").read_bytes())["model"]["merges"]
            shutil.rmtree(target)
    same = "equal" if merges["this project"] == merges["tokenizers"] else "differ"
    slow = median(runs["tokenizers"], _seconds)
    return [
        (
            f"{size / 1e6:.0f} MB",
            name,
            spread(mine, _seconds),
            f"{slow / median(mine, _seconds):.2f}x",
            f"{median(mine, lambda run: run.cpu):.1f}",
            megabytes(median(mine, lambda run: run.peak)),
            f"{len(merges[name]):,}, {same}",
            f"{median(mine, lambda run: run.others):.2f}",
        )
        for name, mine in runs.items()
    ]


def _seconds(run: machine.Run) -> float:
    return float(json.loads(run.output.splitlines()[-1])["seconds"])


if __name__ == "__main__":
    main()
