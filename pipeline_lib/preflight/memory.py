"""How much memory a run holds at each stage: libraries, bounded buffers, what is let go.

Peaks of anonymous memory. Measured with Python 3.11 on Linux with a CPU build of torch, sampled
every 50 ms over whole runs of the notebook; ``benchmarks/fit.py`` measures again. Much of what a
stage frees stays with the process, so a later stage begins where the earlier ones ended.
"""

import math
from collections.abc import Sequence

from pipeline_lib.corpus.lane import MEMORY_ROOM
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.machine import SLACK_BYTES
from pipeline_lib.preflight.amounts import Expected, SizingParameters
from pipeline_lib.preflight.reuse import Made
from pipeline_lib.sources.row_stream import PIECE_BYTES
from pipeline_lib.templates import encoding
from pipeline_lib.token_caches.caches import BATCHES
from pipeline_lib.token_caches.layout import row_files
from pipeline_lib.token_caches.trained_tokenizer import BUDGET
from pipeline_lib.tokenization import fast

LIBRARIES = 290_000_000
"""The kernel, the notebook's imports, the Hub clients."""
PIECES = 9
"""Pieces of rows that reading, checking and storing hold, each of at most ``PIECE_BYTES``."""
MESSAGE = 650
"""For each message of a source of trees: what decides its place, as Python objects."""
COPY = 48
"""For each entry of the weighted index: the index, the draws behind it, lengths and shares."""
TRAINING, TRAINED = 4.5, 1.0
"""Of the text a tokenizer is trained on: while it is trained, and what can not go back of that."""
VOCABULARY = 1_500
"""For each id, in the encoders."""
ENCODER = 30_000_000
"""The fast encoder before it has seen a text."""
WORDS = 7_600
"""Times the root of the text an encoder sees until it forgets: its cache of words, two of them on
two cores. Words that are new come ever more seldom."""
HELD_DOCUMENTS = 1.2
"""Of the documents in the shuffle buffer, as Python holds them."""
STREAM = 12
"""For each token in a write batch of the pretraining stream: ids, masks, the joined array."""
ROW_COPIES = 4
"""Of a write batch of rows: ids and masks before and after the choice, and places."""
MODEL = 75_000_000
"""The modules of the tiny model and of its optimiser."""
MODEL_IDS = 64 * 4 * 5
"""For each id: an embedding of 64 float32, its gradient, two moments, and the reference."""
ACTIVATIONS = 84_000
"""For each position in a batch of the tiny model, forwards and backwards."""
LOGITS, LOGITS_OF_ONE = 4.8, 4.0
"""Copies of a batch's logits in float32 that a preference step holds; of a single row a part of
them is no copy."""


def holds(found: Sequence[Size], expected: Expected, made: Made) -> dict[str, int]:
    """Bytes at the peak of each stage, by its name in ``writes.STAGES``."""
    level: float = LIBRARIES + PIECES * min(PIECE_BYTES, max(_copies(found), default=0))
    stages = {"load": level}
    level += sum(MESSAGE * a.messages for a in expected.amounts) + COPY * expected.copies
    stages["conversations"] = level
    level += VOCABULARY * expected.run.vocab_size
    text = 0 if "tokenizer" in made.complete else min(BUDGET, expected.train_text)
    stages["tokenizer"] = level + TRAINING * text
    stages["shards"], level = _shards(level, TRAINED * text, expected, made)
    stages |= _caches(level, expected, made)
    if expected.run.training_rows:
        stages["tiny model"] = stages["pretrain"] + _tiny_model(expected.run)
    return {name: int(size) for name, size in stages.items()}


def _copies(found: Sequence[Size]) -> list[int]:
    return [size.saved or 0 for size in found]


def _shards(level: float, let_go: float, expected: Expected, made: Made) -> tuple[float, float]:
    """The peak, and the level that stays; ``let_go`` is free but still with the process."""
    if "shards" in made.complete or not expected.shard_text:
        return level + let_go, level + let_go
    held = HELD_DOCUMENTS * expected.corpus.shuffled
    least, most = (
        ENCODER + _words(expected.shard_text, seen)
        for seen in (fast.DROP_CACHE_BYTES, fast.RENEW_BYTES)
    )
    encoder = min(most, max(least, MEMORY_ROOM - held))
    return level + let_go + encoder + held, level + min(encoder + held, SLACK_BYTES)


def _caches(level: float, expected: Expected, made: Made) -> dict[str, float]:
    """Each stage has an encoder of its own, of the same texts."""
    max_len = expected.run.max_len
    batches = {
        "pretrain": min(BATCHES["pretrain"], expected.copies) * expected.mean_tokens * STREAM,
        "sft": BATCHES["sft"] * row_files("sft", max_len).row_bytes * ROW_COPIES,
        "dpo": BATCHES["dpo"] * row_files("dpo", max_len).row_bytes * ROW_COPIES,
    }
    if not batches.keys() <= made.complete:
        level += ENCODER + _words(expected.train_text, encoding.RENEW_BYTES)
    return {
        name: level + (0 if name in made.complete else batch) for name, batch in batches.items()
    }


def _words(text: int, renewed: int) -> float:
    return WORDS * math.sqrt(min(text, renewed))


def _tiny_model(run: SizingParameters) -> float:
    positions = run.training_rows * run.max_len
    copies = LOGITS if run.training_rows > 1 else LOGITS_OF_ONE
    logits = copies * 4 * positions * run.vocab_size
    return MODEL + MODEL_IDS * run.vocab_size + ACTIVATIONS * positions + logits
