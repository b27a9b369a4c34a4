"""One lane: an ordered, resumable stream of documents into its own shards.

A lane is what an engine maps. It needs nothing but its number and the job, and a retried
lane is a resumed lane, so engines keep no books.
"""

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline_lib import machine, shuffling
from pipeline_lib.corpus import checkpoint, staging
from pipeline_lib.corpus.batches import DocumentBatch, VisitCounts
from pipeline_lib.corpus.documents import DEPTH, CommitClock, Documents, part_of_lane
from pipeline_lib.corpus.encoding import EncodingStage, write_token_batch
from pipeline_lib.corpus.pinned import Pinned, versions
from pipeline_lib.corpus.sameness import check_same_run
from pipeline_lib.corpus.shards import SPLITS, ShardWriter, restore_writers
from pipeline_lib.engines import Prefetched, prefetch
from pipeline_lib.errors import DamagedFile, Interrupted
from pipeline_lib.records import Cursor, LaneProgress, WriterState
from pipeline_lib.shuffling import ShuffleState
from pipeline_lib.signals import StopRequest
from pipeline_lib.sources.resolve import check_sealed, reader_metadata
from pipeline_lib.tokenization.reference import Encoded

_LOG = logging.getLogger(__name__)
MEMORY_ROOM = 448 << 20
"""What a lane may hold before it gives memory back and its encoder forgets words, which costs some
5 % where it happens every 320 MiB of text; buffers above it are held all the same."""


@dataclass(frozen=True)
class Job:
    """What every lane of a run shares. Nothing here but ``pinned.recipe`` changes a byte."""

    pinned: Pinned
    staging: Path
    encoder: str = "auto"
    checkpoint_interval: float = 60.0
    verify: str = "all"
    replay: bool = False
    stop: StopRequest = field(default_factory=StopRequest)
    clock: Callable[[], float] = time.monotonic
    on_progress: Callable[[LaneProgress], None] = lambda progress: None


def run_lane(job: Job, lane: int) -> dict[str, Any]:
    """Run, or go on with, one lane to its end; returns its last checkpoint's fields."""
    return _Lane(job, lane).run()


class _Lane:
    def __init__(self, job: Job, lane: int) -> None:
        self.job, self.lane = job, lane
        self.recipe = job.pinned.recipe
        self.folder = staging.lane_folder(job.staging, lane, self.recipe.lanes)
        self.reader = reader_metadata(job.pinned.source, self.recipe)
        self.files = self.reader["files"][lane :: self.recipe.lanes]
        self.max_rows = part_of_lane(self.recipe.max_documents, lane, self.recipe.lanes)
        self.train_tokens = part_of_lane(self.recipe.train_tokens, lane, self.recipe.lanes)
        self.rows_at_most = least(self.max_rows, job.pinned.source.rows_of(self.files))
        self.writers = {split: self._writer(split) for split in SPLITS}
        self.encoding = EncodingStage(
            job.pinned.tokenizer, job.encoder, self.folder / "encoder_mismatch.txt"
        )
        self.seen, self.left_out, self.crossed = VisitCounts(), 0, False
        self.generation = 0
        self.ceiling = machine.MemoryCeiling(MEMORY_ROOM)
        self.encoder_before: dict[str, str] | None = None
        self.shuffle = ShuffleState(shuffling.START, 0, [], False)
        self.started, self.elapsed_before, self.tokens_before = job.clock(), 0.0, 0

    def _writer(self, split: str) -> ShardWriter:
        dtype = self.job.pinned.tokenizer.dtype
        return ShardWriter(self.job.staging, split, self.recipe, dtype, self.lane)

    def run(self) -> dict[str, Any]:
        try:
            fields = self._restore() if checkpoint.exists(self.folder) else self._begin()
            if not fields["finished"]:
                self._work()
                fields = self._commit(finished=True)
            if any(state["open"] for state in fields["writers"].values()):
                for writer in self.writers.values():
                    writer.finish()
                fields = self._commit(finished=True)
            return fields
        finally:
            for writer in self.writers.values():
                writer.close()

    def _begin(self) -> dict[str, Any]:
        self._sweep()
        return self._commit(finished=False)

    def _work(self) -> None:
        if self.train_tokens == 0:  # fewer tokens than lanes: none of them fall to this one
            self.crossed = True
            return
        with closing(self._stream()) as stream:
            for batch, encoded in stream:
                tokenizer = self.job.pinned.tokenizer
                written = write_token_batch(
                    self.writers, batch, encoded, tokenizer, self.train_tokens
                )
                self.seen, self.shuffle = batch.seen, batch.shuffle
                self.left_out, self.crossed = written.left_out, written.crossed
                self.job.on_progress(self._progress())
                if self.ceiling.enforce():
                    self.encoding.drop_cache()
                if written.crossed:
                    break
                if batch.commit:
                    self._commit(finished=False)
                    self._stop_if_asked()
        self.shuffle = self.shuffle._replace(buffer=[])

    def _stream(self) -> Prefetched[tuple[DocumentBatch, Encoded]]:
        documents = Documents(self.job.pinned.source, self.recipe, self.lane, self.files)
        due = CommitClock(self.job.clock, self.job.checkpoint_interval, self.job.stop)
        if self.job.replay:
            batches = documents.behind(self.seen, due)
        else:
            batches = documents.batches(self.shuffle, self.seen, due)
        return prefetch(self.encoding.run(prefetch(batches, DEPTH)), DEPTH)

    def _commit(self, *, finished: bool) -> dict[str, Any]:
        for writer in self.writers.values():
            writer.flush()
        self.generation += 1
        fields = self._fields(finished)
        checkpoint.save_checkpoint(self.folder, fields, self.shuffle)
        return fields

    def _fields(self, finished: bool) -> dict[str, Any]:
        pinned, used = self.job.pinned, self.encoding.used or self.encoder_before
        return {
            "generation": self.generation,
            "lane": self.lane,
            "finished": finished,
            "recipe": self.recipe.fields(),
            "tokenizer": pinned.tokenizer.metadata(),
            "reader": self.reader,
            "source_files": dict(pinned.source.seals),
            "locations": dict(pinned.locations),
            "versions": versions(),
            "encoder": used,
            "source_rows_visited": self.seen.rows,
            "source_digest": self.seen.source_digest,
            "nulls": self.seen.nulls,
            "blanks": self.seen.blanks,
            "prefetched_documents_not_written": self.left_out,
            "train_token_target_reached": None if self.train_tokens is None else self.crossed,
            "writers": {split: writer.summary() for split, writer in self.writers.items()},
            "elapsed_seconds": self.elapsed_before + self.job.clock() - self.started,
        }

    def _progress(self) -> LaneProgress:
        train, val = (self.writers[split] for split in SPLITS)
        seconds = self.job.clock() - self.started
        rate = (train.tokens + val.tokens - self.tokens_before) / max(seconds, 1e-9)
        documents = train.documents + val.documents
        elapsed = self.elapsed_before + seconds
        done = (self.seen.rows, documents, train.tokens, val.tokens)
        return LaneProgress(self.lane, *done, elapsed, rate, self.rows_at_most)

    def _stop_if_asked(self) -> None:
        signum = self.job.stop.signum
        if signum is not None:
            raise Interrupted(
                f"stopped by signal {signum} after {self.seen.rows:,} rows, all of them committed "
                f"in {self.folder}; go on with --resume",
                signum,
            )

    def _sweep(self) -> None:
        named: set[str] = set().union(*(writer.names() for writer in self.writers.values()))
        files = f"*_l{self.lane:02d}_*.npy" if self.recipe.lanes > 1 else "*.npy"
        staging.sweep(self.job.staging, files, named)

    def _restore(self) -> dict[str, Any]:
        paths = checkpoint.generations(self.folder)
        problems: list[str] = []
        for number, path in enumerate(paths):
            try:
                fields = self._restore_from(path, full=self.job.verify == "all" or number > 0)
            except DamagedFile as damage:
                problems.append(str(damage))
                _LOG.warning("%s", damage)
                continue
            if number > 0:
                checkpoint.fall_back(self.folder)
            self._sweep()
            _LOG.info(
                "lane %d goes on at row %s of %s, %s rows visited",
                self.lane, f"{self.shuffle.cursor.row:,}",
                self.files[min(self.shuffle.cursor.file, len(self.files) - 1)],
                f"{self.seen.rows:,}",
            )  # fmt: skip
            return fields
        raise DamagedFile(
            f"no generation in {self.folder} can be used: {' | '.join(problems)}. Restore the "
            "named file from a copy; where only the snapshot is damaged, give --resume --replay; "
            "else remove the staging folder and start a fresh run"
        )

    def _restore_from(self, path: Path, *, full: bool) -> dict[str, Any]:
        fields = checkpoint.read_fields(path)
        if fields["lane"] != self.lane:
            raise DamagedFile(
                f"{path} belongs to lane {fields['lane']}, expected lane {self.lane}; it was "
                "copied from another folder"
            )
        check_same_run(fields, self.job.pinned)
        replay = self.job.replay and not fields["finished"]
        position = ShuffleState(Cursor(*fields["cursor"]), fields["draws"], [], False)
        self.shuffle = position if replay else checkpoint.load_buffer(self.folder, fields)
        self._restore_writers(fields["writers"], None if full else self._older_shards())
        check_sealed(self.job.pinned.source, fields["source_files"])
        self.seen = VisitCounts(
            fields["source_rows_visited"], fields["nulls"], fields["blanks"],
            fields["source_digest"],
        )  # fmt: skip
        self.left_out = fields["prefetched_documents_not_written"]
        self.crossed = bool(fields["train_token_target_reached"])
        self.generation, self.encoder_before = fields["generation"], fields["encoder"]
        self.elapsed_before = fields["elapsed_seconds"]
        self.tokens_before = sum(writer.tokens for writer in self.writers.values())
        return fields

    def _restore_writers(self, states: dict[str, WriterState], trusted: set[str] | None) -> None:
        for writer in self.writers.values():
            writer.close()
        self.writers = {split: self._writer(split) for split in SPLITS}
        restore_writers(self.writers, states, trusted or set())

    def _older_shards(self) -> set[str]:
        """Shards that the previous generation named already, for ``verify="recent"``."""
        try:
            states = checkpoint.read_fields(self.folder / checkpoint.PREVIOUS)["writers"].values()
        except (FileNotFoundError, DamagedFile):
            return set()
        return {shard["file"] for state in states for shard in state["shards"]}


def least(*bounds: int | None) -> int | None:
    """The smallest bound that there is."""
    return min((bound for bound in bounds if bound is not None), default=None)
