"""The memory that a run holds at the peak of each stage.

Bytes of anonymous memory, measured with Python 3.11 on Linux with a CPU build of torch, sampled
every 50 ms over whole runs of the notebook; ``benchmarks/fit.py`` measures again. The process keeps
much of the memory that a stage frees, so a later stage begins where the earlier ones ended.
"""

import math
from collections.abc import Iterable

from pipeline_lib.corpus.lane import MEMORY_ROOM
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.machine import SLACK_BYTES
from pipeline_lib.preflight.amounts import Amounts, SizingParameters
from pipeline_lib.preflight.disk import Stage
from pipeline_lib.preflight.reuse import SHARDS, Reusable
from pipeline_lib.sources.row_stream import PIECE_BYTES
from pipeline_lib.templates import encoding
from pipeline_lib.token_caches.caches import BATCHES
from pipeline_lib.token_caches.layout import Kind
from pipeline_lib.token_caches.trained_tokenizer import BUDGET
from pipeline_lib.tokenization import fast

LIBRARIES = 290_000_000  # the kernel, the imports of the notebook, the Hub clients
PIECES = 9  # pieces of rows, of at most ``PIECE_BYTES``, in reading, checking and storing
MESSAGE = 650  # for each message of a tree: the Python objects that decide its place
COPY = 48  # for each entry of the weighted index: the index, its draws, lengths and shares
TRAINING, TRAINED = 4.5, 1.0  # times the text of the tokenizer: in training, and afterwards
VOCABULARY = 1_500  # for each id, in the encoders
ENCODER = 30_000_000  # the fast encoder before its first text
WORDS = 7_600
"""Times the root of the text that an encoder reads before it is renewed: its two caches of words,
on two cores. They grow by a root because new words become rare."""
HELD_DOCUMENTS = 1.2  # times the documents in the shuffle buffer, as Python objects
STREAM = 12  # for each token in a write batch: ids, masks, the joined array
MODEL = 75_000_000  # the modules of the tiny model and of its optimiser
MODEL_IDS = 64 * 4 * 5  # for each id: 64 float32, their gradient, two moments, the reference
ACTIVATIONS = 84_000  # for each position in a batch of the tiny model, forwards and backwards
LOGITS, LOGITS_OF_ONE = 4.8, 4.0
"""Times the float32 logits of a batch, in a preference step. A batch of one row needs fewer,
because a part of them is not copied."""


def memory_peaks(sizes: Iterable[Size], amounts: Amounts, reusable: Reusable) -> dict[Stage, int]:
    """Bytes at the peak of each stage, in the order of the stages."""
    parameters = amounts.parameters
    load = LIBRARIES + PIECES * min(PIECE_BYTES, max((s.saved or 0 for s in sizes), default=0))
    conversations = load + MESSAGE * amounts.messages + COPY * amounts.copies
    level = conversations + VOCABULARY * parameters.vocab_size
    text = 0 if reusable["tokenizer"].complete else min(BUDGET, amounts.train_text)
    shards, after = _shards(level, TRAINED * text, amounts, reusable[SHARDS].complete)
    caches = _caches(after, amounts, reusable)
    peaks: dict[Stage, float] = {
        "load": load,
        "conversations": conversations,
        "tokenizer": level + TRAINING * text,
        "shards": shards,
        **caches,
    }
    if parameters.training_rows:
        peaks["tiny model"] = caches["pretrain"] + _tiny_model(parameters)
    return {stage: int(size) for stage, size in peaks.items()}


def _shards(level: float, freed: float, amounts: Amounts, complete: bool) -> tuple[float, float]:
    """The peak, and the level after it; ``freed`` bytes of the stage before are still held."""
    if complete or not amounts.shard_text:
        return level + freed, level + freed
    buffer = HELD_DOCUMENTS * amounts.shuffled
    dropped = ENCODER + _words(amounts.shard_text, fast.DROP_CACHE_BYTES)
    renewed = ENCODER + _words(amounts.shard_text, fast.RENEW_BYTES)
    encoder = min(renewed, max(dropped, MEMORY_ROOM - buffer))
    return level + freed + encoder + buffer, level + min(encoder + buffer, SLACK_BYTES)


def _caches(level: float, amounts: Amounts, reusable: Reusable) -> dict[Stage, float]:
    """Each cache is built by an encoder of its own, from the same texts."""
    stream = min(BATCHES["pretrain"], amounts.copies)
    batches: dict[Kind, float] = {
        "pretrain": stream * amounts.mean_tokens * STREAM,
        "sft": BATCHES["sft"] * amounts.mean_tokens * STREAM,
        "dpo": BATCHES["dpo"] * amounts.mean_tokens * STREAM * 2,
    }
    if not all(reusable[kind].complete for kind in batches):
        level += ENCODER + _words(amounts.train_text, encoding.RENEW_BYTES)
    return {k: level + (0 if reusable[k].complete else batch) for k, batch in batches.items()}


def _words(text: int, renewed: int) -> float:
    return WORDS * math.sqrt(min(text, renewed))


def _tiny_model(parameters: SizingParameters) -> float:
    rows, ids = parameters.training_rows, parameters.vocab_size
    positions = rows * parameters.max_len
    logits = (LOGITS if rows > 1 else LOGITS_OF_ONE) * 4 * positions * ids
    return MODEL + MODEL_IDS * ids + ACTIVATIONS * positions + logits
