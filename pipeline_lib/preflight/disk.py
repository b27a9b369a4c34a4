"""What each stage writes, where, and how much of it only for a while: the disk at its peak.

The Hub cache keeps what was fetched, the data folder holds all saved copies and, while one source
is being saved, its rows a second time; then come conversations, shards and token caches. What is
there already is not counted.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.preflight.amounts import Expected
from pipeline_lib.preflight.reuse import STORE, Made
from pipeline_lib.token_caches.layout import STREAM, row_files

DATA, HUB, DATASETS = "data", "hub", "datasets"
"""Places: the data folder, the Hub cache, the cache of ``datasets``."""
STAGES = ("load", "conversations", "tokenizer", "shards", "pretrain", "sft", "dpo", "tiny model")
"""What the notebook does, in its order."""

VOCABULARY_BYTES = 32
"""Of ``tokenizer.json`` for each id: measured 20 at 1,024 ids, 32 at 32,768."""
SNAPSHOT_TOKENS = 300_000_000
"""Fewer are written before the clock asks for the first commit, which holds the buffer."""
SNAPSHOTS = 3
"""Of the buffer: one for each generation of the checkpoint, and the one that is being written."""


class Write(NamedTuple):
    """What is added in one step: ``kept`` bytes stay, ``passing`` ones go when it is done."""

    stage: str
    purpose: str
    place: str
    kept: int
    passing: int = 0


def writes(found: Sequence[Size], expected: Expected, made: Made) -> list[Write]:
    """Everything that is still to be written, in order."""
    return [write for write in _all(found, expected, made) if write.kept or write.passing]


def _all(found: Sequence[Size], expected: Expected, made: Made) -> Iterator[Write]:
    for size in found:
        yield from _loaded(size)
    for amount in expected.amounts:
        left = made.left(STORE + amount.name, amount.stored)
        yield Write("conversations", "conversations", DATA, left)
    vocabulary = VOCABULARY_BYTES * expected.run.vocab_size
    yield Write("tokenizer", "tokenizer", DATA, made.left("tokenizer", vocabulary))
    yield _shards(expected, made)
    width = expected.run.max_len
    caches = {
        "pretrain": expected.stream_tokens * STREAM.row_bytes,
        "sft": expected.sft_rows * row_files("sft", width).row_bytes,
        "dpo": expected.dpo_rows * row_files("dpo", width).row_bytes,
    }
    for name, full in caches.items():
        yield Write(name, "token caches", DATA, made.left(name, full))


def _loaded(size: Size) -> Iterator[Write]:
    if size.present:
        return
    copy = size.saved or 0
    stage = "shards" if size.saved == 0 else "load"  # without a copy it is read where it was put
    yield Write(stage, "fetched files", HUB, 0 if size.streamed else size.network or 0)
    yield Write("load", "cache of datasets", DATASETS, size.extra)
    yield Write("load", "saved copies", DATA, copy, copy)


def _shards(expected: Expected, made: Made) -> Write:
    """The last shard of a split is there twice for a moment, and so may be the buffer."""
    tokens, width = expected.shard_tokens, 2 if expected.run.vocab_size <= 1 << 16 else 4
    left = made.left("shards", tokens * width)
    last = min(tokens, Recipe.shard_tokens) * width
    snapshots = SNAPSHOTS * expected.corpus.shuffled if tokens > SNAPSHOT_TOKENS else 0
    return Write("shards", "shards", DATA, left, max(last, snapshots) if left else 0)
