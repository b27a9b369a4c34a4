"""Training a byte-level BPE: the project's function beside the trainer of ``tokenizers``.

Both read the same texts in the same order; merges are compared. The project cuts runs of hundreds
of characters without a space; the other trainer gets its texts with those cuts already made.
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from inputs import CONVERSATION_IDS, Inputs
from measure import Run, in_turns
from tables import Row, median, megabytes, show, spread

SIZES = (30_000_000, 60_000_000, 120_000_000)
TRAINERS = {"this project": "ours", "tokenizers": "reference"}


def bpe(inputs: Inputs) -> None:
    """Train on more and more text, and show times and merges."""
    title = f"bpe: {CONVERSATION_IDS:,} ids; medians of {inputs.repeat} (lowest-highest)"
    show(title, [row for size in SIZES for row in _rows(inputs, size)])


def _rows(inputs: Inputs, size: int) -> list[Row]:
    merges = {}

    def look(name: str, output: Path) -> None:
        merges[name] = json.loads((output / "tokenizer.json").read_bytes())["model"]["merges"]

    way = partial(inputs.program, "bpe_train", bytes=size, ids=CONVERSATION_IDS)
    ways = {name: partial(way, trainer=trainer) for name, trainer in TRAINERS.items()}
    runs = in_turns(ways, inputs.repeat, look)
    ours, reference = merges.values()
    found = f"{len(ours):,}, equal" if ours == reference else f"{len(ours):,}, differ"
    slow = median(run.report["seconds"] for run in runs["tokenizers"])
    return [_row(f"{size / 1e6:.0f} MB", name, mine, slow, found) for name, mine in runs.items()]


def _row(size: str, name: str, runs: Sequence[Run], slow: float, merges: str) -> Row:
    seconds = [run.report["seconds"] for run in runs]
    return {
        "texts": size,
        "trainer": name,
        "train s": spread(seconds),
        "speed": f"{slow / median(seconds):.2f}x",
        "CPU s": f"{median(run.cpu for run in runs):.1f}",
        "peak anon MB": megabytes(median(run.peak for run in runs)),
        "merges": merges,
        "others' cores": f"{median(run.others for run in runs):.2f}",
    }
