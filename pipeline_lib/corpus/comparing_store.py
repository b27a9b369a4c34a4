"""A lane's store that keeps nothing: what the lane makes is compared with a published folder."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.corpus.batches import DocumentBatch
from pipeline_lib.corpus.encoding import EncodingStage
from pipeline_lib.corpus.job import Job
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.row_origins import NumberedDocument
from pipeline_lib.corpus.shard_comparer import SHOWN, ShardComparer
from pipeline_lib.corpus.state import SPLITS, Checkpoint, LaneState, SnapshotRecord
from pipeline_lib.selection import Split
from pipeline_lib.shuffling import ShuffleState
from pipeline_lib.tokenization.reference import Encoded
from pipeline_lib.tokenization.tokenizer import Tokenizer

LONGEST = 1 << 20
"""Longer texts (in bytes) are not given to the reference, which reads about 1 MB/s, but counted."""
_IDS = 8


class OtherEncoding(NamedTuple):
    """A document that the reference encodes otherwise: its number in its split of the lane, the
    visited row it came from, and its first ids, by each."""

    document: NumberedDocument
    row: int
    reference: list[int]
    found: list[int]


class CheckedEncoding(EncodingStage):
    """Encodes as a run does, and compares the picked documents with the reference to the end.

    ``checked`` and ``long`` count the documents that were compared and those that were too long.
    ``different`` counts those that differ; ``others`` are the first of them.
    """

    def __init__(self, tokenizer: Tokenizer, kind: str) -> None:
        super().__init__(tokenizer, kind, evidence=None)
        self.checked = self.long = self.different = 0
        self.others: list[OtherEncoding] = []
        self._before: dict[Split, int] = {"train": 0, "val": 0}

    def probe(self, batch: DocumentBatch, encoded: Encoded) -> None:
        """Compare the picked documents; a difference is kept, and the work goes on."""
        picked = [index for index in batch.probes if len(batch.texts[index]) <= LONGEST]
        self.checked += len(picked)
        self.long += len(batch.probes) - len(picked)
        right = self._tokenizer.reference.encode([batch.texts[index] for index in picked])
        for number, index in enumerate(picked):
            expected, found = _ids(right, number), _ids(encoded, index)
            if not np.array_equal(expected, found):
                self.different += 1
                document = self._numbered(batch, index)
                ids = (expected[:_IDS].tolist(), found[:_IDS].tolist())
                self.others.append(OtherEncoding(document, batch.row_of(index), *ids))
        del self.others[SHOWN:]
        self._before["train"] += batch.train
        self._before["val"] += len(batch.texts) - batch.train

    def _numbered(self, batch: DocumentBatch, index: int) -> NumberedDocument:
        if index < batch.train:
            return "train", self._before["train"] + index
        return "val", self._before["val"] + index - batch.train


def _ids(encoded: Encoded, index: int) -> NDArray[np.uint32]:
    return encoded.ids[encoded.offsets[index] : encoded.offsets[index + 1]]


class ComparingStore:
    """Takes a lane's documents in order and compares them with the published shards."""

    def __init__(self, job: Job, lane: int, found: Manifest) -> None:
        pinned = job.pinned
        recorded = {s["file"]: s["tokens"] for split in SPLITS for s in found["shards"][split]}
        self.writers: dict[Split, ShardComparer] = {
            split: ShardComparer(
                job.staging, split, pinned.recipe, pinned.tokenizer.dtype, lane, recorded
            )
            for split in SPLITS
        }
        self.encoding = CheckedEncoding(pinned.tokenizer, job.options.encoder)

    def restore(self) -> None:
        """Every lane begins at its start."""

    def commit(self, state: LaneState, shuffle: ShuffleState) -> Checkpoint:
        """The state as a checkpoint that is written nowhere."""
        buffer = SnapshotRecord(file="", documents=0, sha256="")
        cursor, draws, _, draining = shuffle
        return Checkpoint(
            **vars(state), cursor=cursor, draws=draws, draining=draining, buffer=buffer
        )

    def close(self) -> None:
        """Close the published shards."""
        for writer in self.writers.values():
            writer.close()
