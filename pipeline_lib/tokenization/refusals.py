"""Texts that a tokenizer's own library can not encode, found one by one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipeline_lib.errors import TextRefused
from pipeline_lib.tokenization.reference import Encoded, Encoder

NOT_ENCODABLE, NO_TOKENS = "not encodable", "without tokens"
"""Why a text has no ids: the library raises on it, or nothing of it is left."""


class Answer(NamedTuple):
    """Ids of several texts. ``refused``: index of a text that the library raises on, and therefore
    has no ids -> the library's words."""

    encoded: Encoded
    refused: dict[int, str]


def encode_each(encoder: Encoder, texts: Sequence[bytes]) -> Answer:
    """Ids of all texts that can be encoded; a refused one costs the others nothing but time."""
    try:
        return Answer(encoder.encode(texts), {})
    except TextRefused as error:
        if len(texts) == 1:
            return Answer(Encoded(np.empty(0, np.uint32), np.zeros(2, np.int64)), {0: str(error)})
    single = [encode_each(encoder, [text]) for text in texts]
    sizes = [len(answer.encoded.ids) for answer in single]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    ids = np.concatenate([answer.encoded.ids for answer in single])
    refused = {n: answer.refused[0] for n, answer in enumerate(single) if answer.refused}
    return Answer(Encoded(ids, offsets), refused)
