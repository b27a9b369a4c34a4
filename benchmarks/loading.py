"""Batches of 32 shuffled windows of 1,024 tokens as int64 ``x`` and ``y``: tokens per second.

All loaders run in one process and take turns, on the same tokens (litdata on those of the first
files). The windows of the plain gather are those that the project's loader serves.
"""

import json
import shutil
import sys
from pathlib import Path

import inputs
import machine
import numpy as np
from tables import show, spread


def main() -> None:
    given = inputs.resolve(inputs.options(__doc__ or "").parse_args())
    print(machine.facts((*machine.PACKAGES, "litdata")))
    shards, stream, chunks = _data(given)
    options = ["--shards", shards, "--stream", stream, "--rounds", str(max(given.repeat, 3))]
    options += ["--chunks", chunks] if chunks else []
    run = given.measure(given.program("load_windows", *options, peer=True))
    speeds: dict[str, list[float]] = json.loads(run.output.splitlines()[-1])
    ours = float(np.median(speeds["this project, loader()"]))
    rows = [
        (
            name,
            spread(mine, lambda one: one / 1e6, ".0f"),
            f"{32 * 1024 / np.median(mine) * 1e6:.0f}",
            f"{ours / np.median(mine):.2f}",
        )
        for name, mine in speeds.items()
    ]
    columns = ("loader", "M tokens/s", "us a batch", "ours against it")
    title = f"loading: medians of {len(next(iter(speeds.values())))} turns (lowest-highest), "
    show(title + f"others' cores {run.others:.2f}", columns, rows)
    for folder in filter(None, (shards, stream, chunks)):
        shutil.rmtree(folder)


def _data(given: inputs.Inputs) -> tuple[Path, Path, Path | None]:
    """The published shards, the same training tokens as one file, and litdata's chunks."""
    shards, stream = given.empty("published"), given.empty("stream")
    machine.measure(given.ours(shards), folder=inputs.PROJECT)
    stream.mkdir()
    with (stream / "train.bin").open("wb") as out:
        for path in sorted(shards.glob("train_*.npy")):
            np.load(path, mmap_mode="r").tofile(out)
    if given.peers is None:
        return shards, stream, None
    chunks = given.empty("chunks")
    print("preparing litdata's chunks", file=sys.stderr, flush=True)
    source = given.part(given.slow_files)
    options = ["--corpus", source, "--column", given.column]
    options += ["--tokenizer", given.tokenizer, "--output", chunks]
    command = given.program("litdata_tokens", *options, peer=True)
    machine.measure(command, folder=inputs.PROJECT)
    return shards, stream, chunks


if __name__ == "__main__":
    main()
