"""Loaders of token windows, taking turns in one process; prints JSON of tokens per second."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from pipeline_lib.training.batch_order import BatchOrder
from pipeline_lib.training.loader import loader
from pipeline_lib.training.sharded import ShardedTokenDataset

WINDOW, ROWS, BATCHES = 1_024, 32, 400
SLOW_BATCHES = 100
Pairs = Iterator[tuple[torch.Tensor, torch.Tensor]]


def ours(folder: Path) -> Callable[[int], Pairs]:
    """The project's dataset through its loader, a new pass in each turn."""
    data = ShardedTokenDataset(folder, "train", WINDOW)

    def batches(turn: int) -> Pairs:
        yield from loader(data, ROWS, seed=turn)

    return batches


def gather(stream: Path, windows: int) -> Callable[[int], Pairs]:
    """numpy alone: the same windows from the memmap into int64; the order is made before."""
    tokens = np.memmap(stream, np.uint16, "r")
    view = sliding_window_view(tokens, WINDOW + 1)
    orders = {}
    for turn in range(20):
        order = BatchOrder(windows, ROWS, seed=turn)
        orders[turn] = [np.array(part) * WINDOW for part in islice(order, BATCHES)]

    def batches(turn: int) -> Pairs:
        for starts in orders[turn]:
            both = view[starts].astype(np.int64)
            yield both[:, :-1], both[:, 1:]

    return batches


def nanogpt(stream: Path) -> Callable[[int], Pairs]:
    """nanoGPT's ``get_batch``: the memmap opened for every batch, x and y copied apart."""

    def batches(turn: int) -> Pairs:
        torch.manual_seed(turn)
        while True:
            data = np.memmap(stream, dtype=np.uint16, mode="r")
            ix = torch.randint(len(data) - WINDOW, (ROWS,))
            x = [torch.from_numpy(data[i : i + WINDOW].astype(np.int64)) for i in ix]
            y = [torch.from_numpy(data[i + 1 : i + 1 + WINDOW].astype(np.int64)) for i in ix]
            yield torch.stack(x), torch.stack(y)

    return batches


def litdata_loader(folder: Path) -> Callable[[int], Pairs]:
    """litdata's ``StreamingDataset`` with ``TokensLoader`` and its ``StreamingDataLoader``."""
    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.streaming.item_loader import TokensLoader

    data = StreamingDataset(
        str(folder / "tokens"), item_loader=TokensLoader(WINDOW + 1), shuffle=True
    )

    def batches(turn: int) -> Pairs:
        for batch in StreamingDataLoader(data, batch_size=ROWS, num_workers=0):
            tokens = batch.long()
            yield tokens[:, :-1], tokens[:, 1:]

    return batches


def speed(batches: Pairs, count: int) -> float:
    """Tokens per second over some batches; the first ones are not counted."""
    for _ in islice(batches, 5):
        pass
    started, tokens = time.perf_counter(), 0
    for x, y in islice(batches, count):
        if x.shape != y.shape:
            sys.exit(f"x is {tuple(x.shape)}, y is {tuple(y.shape)}")
        tokens += x.shape[0] * x.shape[1]
    return tokens / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", type=Path, required=True)
    parser.add_argument("--stream", type=Path, required=True)
    parser.add_argument("--chunks", type=Path)
    parser.add_argument("--rounds", type=int, required=True)
    given = parser.parse_args()
    windows = len(ShardedTokenDataset(given.shards, "train", WINDOW))
    stream = given.stream / "train.bin"
    ways = {
        "this project, loader()": (ours(given.shards), BATCHES),
        "numpy gather of the same windows": (gather(stream, windows), BATCHES),
        "nanoGPT get_batch": (nanogpt(stream), SLOW_BATCHES),
    }
    if given.chunks:
        ways["litdata TokensLoader"] = (litdata_loader(given.chunks), SLOW_BATCHES)
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(3 * given.rounds):
        for name, (make, count) in ways.items():
            speeds[name].append(speed(make(turn), count))
    print(json.dumps(speeds))


if __name__ == "__main__":
    main()
