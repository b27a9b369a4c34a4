"""One lane: an ordered, resumable stream of documents into its own shards.

An engine maps ``run_lane`` over the numbers of the lanes. A lane needs nothing but its number and
the job, and a lane that is tried again is a lane that is resumed, so engines keep no books.
"""

import logging
from contextlib import closing

from pipeline_lib import machine
from pipeline_lib.corpus.batches import NOTHING_VISITED, USUAL_PROBES, Probing, VisitCounts
from pipeline_lib.corpus.bounds import least
from pipeline_lib.corpus.encoding import write_token_batch
from pipeline_lib.corpus.job import CommitClock, Job
from pipeline_lib.corpus.lane_store import LaneStore, StagingStore
from pipeline_lib.corpus.left_out import LeftOut
from pipeline_lib.corpus.pinned import versions
from pipeline_lib.corpus.reader import (
    AT_THE_START,
    READ_AHEAD,
    LaneReader,
    files_of_lane,
    reader_metadata,
)
from pipeline_lib.corpus.recipe import lane_bound
from pipeline_lib.corpus.rejects import EncodedBatch
from pipeline_lib.corpus.state import BySplit, Checkpoint, LaneState
from pipeline_lib.engines import Prefetched
from pipeline_lib.errors import Interrupted
from pipeline_lib.records import LaneProgress
from pipeline_lib.shuffling import ShuffleState

_LOG = logging.getLogger(__name__)
MEMORY_ROOM = 448 << 20
"""Bytes that a lane may hold before it gives memory back and its encoder forgets words. Doing so
costs some 5 % where it happens every 320 MiB of text. Buffers are held even beyond it."""


def run_lane(job: Job, lane: int) -> Checkpoint:
    """Run one lane, or go on with it, to its end; returns its last commit."""
    return Lane(job, lane, StagingStore(job, lane)).run()


class Lane:
    """A lane at work. ``seen``, ``shuffle``, ``left_out`` and ``crossed`` are where it stands.

    ``store`` gets what it makes. ``probing`` picks documents that the reference encodes, too.
    """

    def __init__(
        self, job: Job, number: int, store: LaneStore, probing: Probing = USUAL_PROBES
    ) -> None:
        self.job, self.number, self.recipe = job, number, job.pinned.recipe
        self.store, self.probing = store, probing
        lanes = self.recipe.lanes
        self.reader = reader_metadata(job.pinned.source, self.recipe)
        self.files = files_of_lane(self.reader, number, lanes)
        self.max_rows = lane_bound(self.recipe.row_bound, number, lanes)
        self.train_tokens = lane_bound(self.recipe.train_tokens, number, lanes)
        self.rows_at_most = least(self.max_rows, job.pinned.source.rows_of(self.files))
        self.ceiling = machine.MemoryCeiling(MEMORY_ROOM)
        self.seen, self.shuffle = NOTHING_VISITED, AT_THE_START
        self.left_out, self.crossed = 0, False
        self.rejects = LeftOut(job.pinned.source, self.files, self.recipe.text_column)
        self.generation = self.tokens_before = 0
        self.started, self.elapsed_before = job.options.clock(), 0.0

    def run(self) -> Checkpoint:
        """Work to the end of the lane; returns its last commit."""
        try:
            last = self._begin()
            if not last.finished:
                self._work()
                last = self._commit(finished=True)
            if last.writers["train"]["open"] or last.writers["val"]["open"]:
                for writer in self.store.writers.values():
                    writer.finish()
                last = self._commit(finished=True)
            return last
        finally:
            self.store.close()

    def _begin(self) -> Checkpoint:
        restored = self.store.restore()
        return self._commit(finished=False) if restored is None else self._resume(*restored)

    def _resume(self, last: Checkpoint, shuffle: ShuffleState) -> Checkpoint:
        self.shuffle = shuffle
        self.seen = VisitCounts(
            last.source_rows_visited, last.nulls, last.blanks, last.source_digest
        )
        self.left_out = last.prefetched_documents_not_written
        self.rejects.restore(last)
        self.crossed = bool(last.train_token_target_reached)
        self.generation = last.generation
        self.store.encoding.before = last.encoders
        self.elapsed_before = last.elapsed_seconds
        self.tokens_before = sum(writer.tokens for writer in self.store.writers.values())
        _LOG.info(
            "lane %d goes on at row %s of %s, %s rows visited",
            self.number, f"{last.cursor.row:,}",
            self.files[min(last.cursor.file, len(self.files) - 1)], f"{self.seen.rows:,}",
        )  # fmt: skip
        return last

    def _work(self) -> None:
        if self.train_tokens == 0:  # fewer tokens than lanes: none of them fall to this one
            self.crossed = True
            return
        tokenizer = self.job.pinned.tokenizer
        with closing(self._stream()) as stream:
            for found in stream:
                batch = found.batch
                written = write_token_batch(
                    self.store.writers, batch, found.encoded, tokenizer, self.train_tokens
                )
                self.rejects.add(found, written.unknown)
                self.seen, self.shuffle = batch.seen, batch.shuffle
                self.left_out, self.crossed = written.left_out, written.crossed
                self.job.options.on_progress(self._progress())
                if self.ceiling.enforce():
                    self.store.encoding.drop_cache()
                if written.crossed:
                    break
                if batch.commit:
                    self._commit(finished=False)
                    self._stop_if_asked()
        self.shuffle = self.shuffle._replace(buffer=[])

    def _stream(self) -> Prefetched[EncodedBatch]:
        options = self.job.options
        source = self.job.pinned.source
        reader = LaneReader(
            source, self.recipe, self.number, self.files, self.max_rows, self.probing
        )
        due = CommitClock(options.clock, options.checkpoint_interval, self.job.stop)
        if options.replay:
            batches = reader.replayed_batches(self.seen, due)
        else:
            batches = reader.batches(self.shuffle, self.seen, due)
        return Prefetched(self.store.encoding.run(Prefetched(batches, READ_AHEAD)), READ_AHEAD)

    def _commit(self, *, finished: bool) -> Checkpoint:
        self.generation += 1
        return self.store.commit(self._state(finished), self.shuffle)

    def _state(self, finished: bool) -> LaneState:
        pinned = self.job.pinned
        train, val = self.store.writers["train"], self.store.writers["val"]
        return LaneState(
            generation=self.generation,
            lane=self.number,
            finished=finished,
            recipe=self.recipe.fields(),
            tokenizer=pinned.tokenizer.metadata(),
            reader=self.reader,
            source_files=dict(pinned.source.seals),
            locations=pinned.locations,
            versions=versions(),
            encoders=self.store.encoding.encoders,
            source_rows_visited=self.seen.rows,
            source_digest=self.seen.source_digest,
            nulls=self.seen.nulls,
            blanks=self.seen.blanks,
            rejected=self.rejects.counts,
            first_rejected=self.rejects.first,
            losses=self.rejects.losses,
            prefetched_documents_not_written=self.left_out,
            train_token_target_reached=None if self.train_tokens is None else self.crossed,
            writers=BySplit(train=train.summary(), val=val.summary()),
            elapsed_seconds=self.elapsed_before + self.job.options.clock() - self.started,
        )

    def _progress(self) -> LaneProgress:
        train, val = self.store.writers["train"], self.store.writers["val"]
        seconds = self.job.options.clock() - self.started
        return LaneProgress(
            lane=self.number,
            rows=self.seen.rows,
            documents=train.documents + val.documents,
            train_tokens=train.tokens,
            val_tokens=val.tokens,
            elapsed_seconds=self.elapsed_before + seconds,
            rate=(train.tokens + val.tokens - self.tokens_before) / max(seconds, 1e-9),
            rows_at_most=self.rows_at_most,
            tokens_at_most=self.train_tokens,
            lanes=self.recipe.lanes,
        )

    def _stop_if_asked(self) -> None:
        signum = self.job.stop.signum
        if signum is not None:
            raise Interrupted(
                f"stopped by signal {signum} after {self.seen.rows:,} rows, all of them committed "
                f"in {self.job.staging}; go on with --resume",
                signum,
            )
