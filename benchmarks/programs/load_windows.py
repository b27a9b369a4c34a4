"""Loaders of token windows, taking turns in one process; prints JSON of tokens per second.

``rows`` windows of ``window`` tokens make a batch; every loader gets ``turns`` turns. A loader is
here a function from the number of a turn to its batches of ``x`` and ``y``.
"""

import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from given import arguments
from numpy.lib.stride_tricks import sliding_window_view

from pipeline_lib import BatchOrder, ShardedTokenDataset, loader

BATCHES, SLOW_BATCHES = 400, 100
Batches = Iterator[tuple[Any, Any]]

given = arguments(chunks=None)
ROWS, WINDOW = given.rows, given.window
DATA = ShardedTokenDataset(given.shards, "train", WINDOW)
STREAM = given.stream / "train.bin"
MAPPED = sliding_window_view(np.memmap(STREAM, np.uint16, "r"), WINDOW + 1)
if given.chunks:
    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.streaming.item_loader import TokensLoader

    WINDOWS, CHUNKS = TokensLoader(WINDOW + 1), str(given.chunks / "tokens")
    STREAMED = StreamingDataset(CHUNKS, item_loader=WINDOWS, shuffle=True)


def ours(turn: int) -> Batches:
    """The project's dataset through its loader, a new pass in each turn."""
    return iter(loader(DATA, ROWS, seed=turn))


def gather(turn: int) -> Batches:
    """numpy alone: the same windows from one memmap into int64; the order is made before."""
    order = BatchOrder(len(DATA), ROWS, seed=turn)
    for starts in [np.array(rows) * WINDOW for rows in islice(order, BATCHES)]:
        both = MAPPED[starts].astype(np.int64)
        yield both[:, :-1], both[:, 1:]


def nanogpt(turn: int) -> Batches:
    """nanoGPT's ``get_batch``: the memmap opened for every batch, x and y copied apart."""
    torch.manual_seed(turn)
    while True:
        data = np.memmap(STREAM, dtype=np.uint16, mode="r")
        ix = torch.randint(len(data) - WINDOW, (ROWS,))
        x = [torch.from_numpy(data[i : i + WINDOW].astype(np.int64)) for i in ix]
        y = [torch.from_numpy(data[i + 1 : i + 1 + WINDOW].astype(np.int64)) for i in ix]
        yield torch.stack(x), torch.stack(y)


def litdata(turn: int) -> Batches:
    """litdata's ``StreamingDataset`` with ``TokensLoader`` and its ``StreamingDataLoader``."""
    for batch in StreamingDataLoader(STREAMED, batch_size=ROWS, num_workers=0):
        tokens = batch.long()
        yield tokens[:, :-1], tokens[:, 1:]


def speed(batches: Batches, count: int) -> float:
    """Tokens per second over some batches; the first ones are not counted."""
    for _ in islice(batches, 5):
        pass
    started, tokens = time.perf_counter(), 0
    for x, y in islice(batches, count):
        if x.shape != y.shape:
            sys.exit(f"x is {tuple(x.shape)}, y is {tuple(y.shape)}")
        tokens += x.shape[0] * x.shape[1]
    return tokens / (time.perf_counter() - started)


WAYS = {
    "this project, loader()": (ours, BATCHES),
    "numpy gather of the same windows": (gather, BATCHES),
    "nanoGPT get_batch": (nanogpt, SLOW_BATCHES),
}
if given.chunks:
    WAYS["litdata TokensLoader"] = (litdata, SLOW_BATCHES)
speeds: dict[str, list[float]] = {name: [] for name in WAYS}
for turn in range(given.turns):
    for name, (batches, count) in WAYS.items():
        speeds[name].append(speed(batches(turn), count))
print(json.dumps(speeds))
