"""Where a lane keeps its shards and commits: the interface, and the staging folder of a run."""

from collections.abc import Mapping
from typing import Any, Protocol

from pipeline_lib.corpus import checkpoint, staging
from pipeline_lib.corpus.encoding import EncodingStage
from pipeline_lib.corpus.job import Job
from pipeline_lib.corpus.layout import MISMATCH, lane_folder
from pipeline_lib.corpus.restore import restore_lane
from pipeline_lib.corpus.shard_cutter import ShardCutter
from pipeline_lib.corpus.shard_writer import ShardWriter, new_writers
from pipeline_lib.corpus.state import Checkpoint, LaneState
from pipeline_lib.selection import Split
from pipeline_lib.shuffling import ShuffleState


class LaneStore(Protocol):
    """What a lane hands its documents and commits to.

    ``writers``: one for each split. ``encoding``: makes the ids of the lane's documents.
    """

    @property
    def writers(self) -> Mapping[Split, ShardCutter[Any]]: ...

    @property
    def encoding(self) -> EncodingStage: ...

    def restore(self) -> tuple[Checkpoint, ShuffleState] | None:
        """Bring the writers to the last commit and return it; None if the lane begins."""

    def commit(self, state: LaneState, shuffle: ShuffleState) -> Checkpoint:
        """Keep a state for good, with all documents that the writers got."""

    def close(self) -> None:
        """Close the writers."""


class StagingStore:
    """A lane's place in the staging folder: whatever is committed survives a crash."""

    def __init__(self, job: Job, lane: int) -> None:
        pinned = job.pinned
        self._job, self._lane = job, lane
        self._folder = lane_folder(job.staging, lane, pinned.recipe.lanes)
        self.writers: dict[Split, ShardWriter] = new_writers(
            job.staging, pinned.recipe, pinned.tokenizer.dtype, lane
        )
        self.encoding = EncodingStage(
            pinned.tokenizer, job.options.encoder, self._folder / MISMATCH
        )

    def restore(self) -> tuple[Checkpoint, ShuffleState] | None:
        """The last sound commit, see ``restore_lane``; files that it does not name are removed."""
        last = None
        staging.require_sound(self._job.staging)
        if checkpoint.exists(self._folder):
            last, shuffle, self.writers = restore_lane(self._job, self._lane)
        named = {name for writer in self.writers.values() for name in writer.names()}
        staging.remove_unnamed_shards(
            self._job.staging, self._lane, self._job.pinned.recipe.lanes, named
        )
        return (last, shuffle) if last is not None else None

    def commit(self, state: LaneState, shuffle: ShuffleState) -> Checkpoint:
        """Write a checkpoint behind durable shards."""
        for writer in self.writers.values():
            writer.flush()
        return checkpoint.save_checkpoint(self._folder, state, shuffle)

    def close(self) -> None:
        """Close the open shard files."""
        for writer in self.writers.values():
            writer.close()
