"""A pair for every conversation: a real pair stays, others get a synthetic rejected answer.

The synthetic answer has the words of the last assistant turn in another order. The content decides
this order, so equal conversations get equal pairs. Pure.
"""

import hashlib

import numpy as np

from pipeline_lib import selection
from pipeline_lib.chat.store import ConversationBatch
from pipeline_lib.chat.store_format import RowTurns, in_columns
from pipeline_lib.records import TurnBatch

SYNTHETIC_VERSION = 1
"""Increased when a synthetic answer changes."""

_TRIES = 8
_ASSISTANT = np.array([2], np.int8)


def shuffled_words(content: bytes) -> bytes | None:
    """The words of a text in another order, joined by spaces; None if there is no other order."""
    words = content.decode().split()
    if len(set(words)) < 2:
        return None
    seed = int.from_bytes(hashlib.sha256(content).digest()[:4], "big")
    for attempt in range(_TRIES):
        order = selection.permutation(len(words), seed, "rejected", str(attempt)).tolist()
        shuffled = [words[place] for place in order]
        if shuffled != words:
            return " ".join(shuffled).encode()
    return " ".join(reversed(words)).encode() if words != words[::-1] else None


def with_rejected(batch: ConversationBatch) -> ConversationBatch:
    """The same conversations, with a rejected continuation wherever possible.

    The prompt of a synthetic pair is everything before the last turn. ``prompt`` stays 0 for a
    conversation of a single turn. There are no rejected turns if the words of the answer have no
    other order.
    """
    prompt = batch.prompt.copy()
    rejected = [_rejected(batch, row) for row in range(len(prompt))]
    offsets = batch.turns.offsets
    synthetic = prompt == 0
    prompt[synthetic] = (np.diff(offsets) - 1)[synthetic]
    return batch._replace(prompt=prompt, rejected=in_columns(rejected))


def _rejected(batch: ConversationBatch, row: int) -> RowTurns:
    if batch.prompt[row]:
        return _turns_of(batch.rejected, row)
    last = int(batch.turns.offsets[row + 1]) - 1
    content = shuffled_words(batch.turns.contents[last])
    if content is None:
        return [], _ASSISTANT[:0], _ASSISTANT[:0]
    return [content], _ASSISTANT, batch.turns.learn[last : last + 1]


def _turns_of(turns: TurnBatch, row: int) -> RowTurns:
    start, stop = turns.offsets[row : row + 2].tolist()
    return turns.contents[start:stop], turns.roles[start:stop], turns.learn[start:stop]
