"""The bytes that each stage writes, and the most that each volume holds at once.

The Hub cache keeps all fetched files. The data folder holds all saved copies and, while a source is
saved, its rows a second time; then come conversations, shards and token caches. Files that are
there already are not counted.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

from pipeline_lib import machine
from pipeline_lib.chat.source_store import KIND as STORE
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.preflight.amounts import Amounts
from pipeline_lib.preflight.reuse import SHARDS, Held, Reusable
from pipeline_lib.token_caches.layout import STREAM, row_files

Stage = Literal[
    "load", "conversations", "tokenizer", "shards", "pretrain", "sft", "dpo", "tiny model"
]
"""The stages of the notebook, in its order."""
DATA, HUB, DATASETS = "data folder", "Hub cache", "cache of datasets"

VOCABULARY_BYTES = 32
"""Of ``tokenizer.json`` for each id: measured 20 at 1,024 ids, 32 at 32,768."""
SNAPSHOT_TOKENS = 300_000_000
"""Shards of fewer tokens are made before the first commit with a copy of the buffer is due."""
SNAPSHOTS = 3
"""Copies of the shuffle buffer: two generations of it, and one that is being written."""


class Write(NamedTuple):
    """The bytes of one step: ``kept`` stay, ``passing`` ones are removed when the step is done."""

    stage: Stage
    purpose: str
    kept: int
    passing: int = 0
    place: str = DATA


class DiskNeed(NamedTuple):
    """Bytes that one volume must have free at the peak, and bytes that stay, by purpose."""

    volume: machine.Volume
    needed: int
    purposes: Mapping[str, int]


def writes(sizes: Iterable[Size], amounts: Amounts, reusable: Reusable) -> list[Write]:
    """The steps of a run that still write something, in order."""
    steps = _steps(sizes, amounts, reusable)
    return [step for step in steps if step.kept or step.passing]


def _steps(sizes: Iterable[Size], amounts: Amounts, reusable: Reusable) -> Iterator[Write]:
    parameters = amounts.parameters
    for size in sizes:
        if not size.present:
            yield from _load(size)
    for name, stored in amounts.stored.items():
        yield Write("conversations", "conversations", reusable[STORE + name].left(stored))
    vocabulary = VOCABULARY_BYTES * parameters.vocab_size
    yield Write("tokenizer", "tokenizer", reusable["tokenizer"].left(vocabulary))
    yield _shards(amounts, reusable[SHARDS])
    for kind, tokens in amounts.tokens.items():
        expected = tokens * STREAM.item_bytes
        if kind != "pretrain":
            files = row_files(kind)
            expected = tokens * files.token_bytes + amounts.rows[kind] * files.record_bytes
        yield Write(kind, "token caches", reusable[kind].left(expected))


def _load(size: Size) -> Iterator[Write]:
    copy = size.saved or 0
    stage: Stage = "shards" if size.saved == 0 else "load"  # the corpus has no copy
    fetched = 0 if size.streamed else size.network or 0
    yield Write(stage, "fetched files", fetched, place=HUB)
    yield Write("load", "cache of datasets", size.extra, place=DATASETS)
    yield Write("load", "saved copies", copy, copy)


def _shards(amounts: Amounts, held: Held) -> Write:
    """``passing``: the last shard is there twice for a moment, and so are copies of the buffer."""
    tokens, width = amounts.shard_tokens, 2 if amounts.parameters.vocab_size <= 1 << 16 else 4
    left = held.left(tokens * width)
    last = min(tokens, Recipe.shard_tokens) * width
    buffers = SNAPSHOTS * amounts.shuffled if tokens > SNAPSHOT_TOKENS else 0
    return Write("shards", "shards", left, max(last, buffers) if left else 0)


def peak(steps: Sequence[Write]) -> int:
    """The most bytes that steps hold at once, one after another."""
    there = accumulate(step.kept for step in steps)
    return max((held + step.passing for held, step in zip(there, steps, strict=True)), default=0)


def disk_needs(steps: Iterable[Write], data_dir: Path) -> tuple[DiskNeed, ...]:
    """The need of the data folder's volume, then of each other volume that is written to."""
    volumes = {place: machine.volume_of(path) for place, path in _folders(data_dir).items()}
    needs: dict[int, list[Write]] = {volumes[DATA].device: []}
    for step in steps:
        needs.setdefault(volumes[step.place].device, []).append(step)
    shown = {volume.device: volume for volume in reversed(volumes.values())}
    return tuple(_need(shown[device], mine) for device, mine in needs.items())


def _need(volume: machine.Volume, steps: Sequence[Write]) -> DiskNeed:
    purposes: dict[str, int] = {}
    for step in steps:
        purposes[step.purpose] = purposes.get(step.purpose, 0) + step.kept
    return DiskNeed(volume, peak(steps), purposes)


def _folders(data_dir: Path) -> dict[str, Path]:
    """The folder of each place, by the environment variables that the Hub clients read."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("HF_HOME") or cache / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    datasets = Path(os.environ.get("HF_DATASETS_CACHE") or home / "datasets")
    return {DATA: data_dir, HUB: hub, DATASETS: datasets}
