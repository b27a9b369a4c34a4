"""The documents of one lane in visited order, cut into batches, read ahead in a thread."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice

from pipeline_lib import shuffling
from pipeline_lib.corpus.batches import Batcher, DocumentBatch, VisitCounts
from pipeline_lib.corpus.recipe import Recipe, bound_of_lane
from pipeline_lib.engines import prefetch
from pipeline_lib.errors import SourceChanged
from pipeline_lib.shuffling import Dice, Row, ShuffleBuffer, ShuffleState
from pipeline_lib.signals import StopRequest
from pipeline_lib.sources.resolve import CorpusSource, blocks

DEPTH = 2
"""Items kept ready between two stages."""


class CommitClock:
    """Says at a batch's end whether a commit is due: by interval, or because of a signal."""

    def __init__(self, clock: Callable[[], float], interval: float, stop: StopRequest) -> None:
        self._clock, self._interval, self._stop = clock, interval, stop
        self._last = clock()

    def __call__(self) -> bool:
        now = self._clock()
        if not self._stop.requested and now - self._last < self._interval:
            return False
        self._last = now
        return True


class Documents:
    """What one lane visits: ``files`` in this order, up to the lane's part of the bound."""

    def __init__(self, source: CorpusSource, recipe: Recipe, lane: int, files: list[str]) -> None:
        self._source, self._recipe, self._lane, self._files = source, recipe, lane, files
        self._max_rows = part_of_lane(recipe.max_documents, lane, recipe.lanes)

    def batches(
        self, start: ShuffleState, seen: VisitCounts, commit_due: Callable[[], bool]
    ) -> Generator[DocumentBatch, None, None]:
        """The batches behind a committed state."""
        recipe = self._recipe
        dice = Dice(recipe.seed, shuffling.DOCUMENT_STREAM + self._lane, start.draws)
        shuffle = ShuffleBuffer.restored(
            start, dice, recipe.shuffle_buffer, recipe.shuffle_buffer_bytes
        )
        source = blocks(self._source, self._files, recipe.text_column, start.cursor)
        with closing(prefetch(source, DEPTH)) as ahead:
            rows: Iterator[Row] = shuffle.run(ahead)
            if self._max_rows is not None:
                rows = islice(rows, self._max_rows - seen.rows)
            yield from Batcher(recipe, seen).batches(shuffle, rows, commit_due)

    def behind(
        self, seen: VisitCounts, commit_due: Callable[[], bool]
    ) -> Generator[DocumentBatch, None, None]:
        """The batches behind the committed ones, after reading those again from the start."""
        batches = self.batches(
            ShuffleState(shuffling.START, 0, [], False), VisitCounts(), commit_due
        )
        found = replay_source_prefix(batches, seen)
        if found != seen:
            raise SourceChanged(
                f"reading the first {seen.rows:,} rows again gives {found}, the checkpoint "
                f"has {seen}; the source was changed or shortened: restore it, or start a "
                "fresh run in another output folder"
            )
        return batches


def replay_source_prefix(batches: Iterator[DocumentBatch], target: VisitCounts) -> VisitCounts:
    """Read batches until ``target.rows`` rows are visited; returns what was seen by then."""
    seen = VisitCounts()
    while seen.rows < target.rows:
        batch = next(batches, None)
        if batch is None:
            break
        seen = batch.seen
    return seen


def part_of_lane(total: int | None, lane: int, lanes: int) -> int | None:
    """The lane's part of a bound, if there is one."""
    return None if total is None else bound_of_lane(total, lane, lanes)
