"""Batches of 32 shuffled windows of 1,024 tokens as int64 ``x`` and ``y``: tokens per second.

All loaders run in one process and take turns, on the same tokens (litdata on those of the first
files). The windows of the plain gather are those that the project's loader serves.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cache import clear, scratch
from inputs import Inputs
from measure import measure, run
from tables import Row, median, show, spread

ROWS, WINDOW = 32, 1_024
TURNS = 3
"""For each repetition: turns are short."""


def loading(inputs: Inputs) -> None:
    """Make what the loaders read, run them, and show their speeds."""
    made, turns = _made(inputs), TURNS * max(inputs.repeat, 3)
    shape = {"rows": ROWS, "window": WINDOW, "turns": turns}
    process = measure(inputs.program("load_windows", peer=True, **made, **shape))
    speeds: dict[str, list[float]] = process.report
    ours, *_ = map(median, speeds.values())
    title = f"loading: medians of {turns} turns (lowest-highest), "
    title += f"others' cores {process.others:.2f}"
    show(title, [_row(name, found, ours) for name, found in speeds.items()])
    for folder in made.values():
        clear(folder)


def _made(inputs: Inputs) -> dict[str, Path]:
    """The published shards, their training tokens as one file, and with peers litdata's chunks."""
    shards, stream, chunks = scratch("shards"), scratch("stream"), scratch("chunks")
    run(inputs.prepare(output=shards))
    stream.mkdir()
    with (stream / "train.bin").open("wb") as out:
        for path in sorted(shards.glob("train_*.npy")):
            np.load(path, mmap_mode="r").tofile(out)
    made = {"shards": shards, "stream": stream}
    if not inputs.peers:
        return made
    run(inputs.first_files().program("tools", tool="litdata", peer=True, output=chunks))
    return {**made, "chunks": chunks}


def _row(name: str, speeds: Sequence[float], ours: float) -> Row:
    return {
        "loader": name,
        "M tokens/s": spread((speed / 1e6 for speed in speeds), ".0f"),
        "us a batch": f"{ROWS * WINDOW / median(speeds) * 1e6:.0f}",
        "ours against it": f"{ours / median(speeds):.2f}",
    }
