"""Documents that a tokenizer can not give ids to: left out, counted by reason, the first one named.

They are no documents of the published folder, as blank rows are none: an end token alone would be
read as a document, and an end token inside a text as two.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.corpus.batches import DocumentBatch
from pipeline_lib.tokenization.reference import Encoded
from pipeline_lib.tokenization.refusals import NO_TOKENS, NOT_ENCODABLE

END_TOKEN = "spelling the end token"
REASONS = (NOT_ENCODABLE, NO_TOKENS, END_TOKEN)
"""Why a document is left out: the library raises on it, it has no ids, its own text became the end
token."""


class Rejected(NamedTuple):
    """A document that is left out. ``row``: its visited row in the lane. ``words``: of the library,
    if it refused the text (UTF-8)."""

    reason: str
    row: int
    text: bytes
    words: str


class EncodedBatch(NamedTuple):
    """Documents with their ids, and those that have none.

    ``compared`` / ``lost``: documents that were decoded again, and those of which text was lost.
    """

    batch: DocumentBatch
    encoded: Encoded
    rejected: list[Rejected]
    compared: int = 0
    lost: int = 0


def sort_out(
    batch: DocumentBatch, encoded: Encoded, refused: Mapping[int, str], eos_id: int
) -> EncodedBatch:
    """The documents that have ids without the end token in them; the others are rejected."""
    ids, offsets = encoded
    sizes = np.diff(offsets)
    is_end = ids == eos_id
    if not refused and (sizes > 0).all() and not is_end.any():
        return EncodedBatch(batch, encoded, [])
    ends = np.concatenate([[0], np.cumsum(is_end)])[offsets]
    has_end: NDArray[np.bool_] = np.diff(ends) > 0
    reasons = {index: NO_TOKENS for index in np.flatnonzero(sizes == 0).tolist()}
    reasons |= dict.fromkeys(np.flatnonzero(has_end).tolist(), END_TOKEN)
    reasons |= dict.fromkeys(refused, NOT_ENCODABLE)
    rejected = [
        Rejected(reason, batch.row_of(index), batch.texts[index], refused.get(index, ""))
        for index, reason in reasons.items()
    ]
    kept = np.ones(len(sizes), bool)
    kept[list(reasons)] = False
    rejected.sort(key=lambda one: one.row)
    return EncodedBatch(_kept(batch, kept), _kept_ids(encoded, kept), rejected)


def _kept(batch: DocumentBatch, kept: NDArray[np.bool_]) -> DocumentBatch:
    return batch._replace(
        texts=[batch.texts[index] for index in np.flatnonzero(kept).tolist()],
        train=int(kept[: batch.train].sum()),
        positions=batch.positions[kept],
        probes=_places(batch.probes, kept),
    )


def _places(indices: Sequence[int], kept: NDArray[np.bool_]) -> list[int]:
    """Where kept texts stand once the others are gone."""
    places = np.cumsum(kept) - 1
    return [int(places[index]) for index in indices if kept[index]]


def _kept_ids(encoded: Encoded, kept: NDArray[np.bool_]) -> Encoded:
    sizes = np.diff(encoded.offsets)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[kept], dtype=np.int64)])
    return Encoded(encoded.ids[np.repeat(kept, sizes)], offsets)
