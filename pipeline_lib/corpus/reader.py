"""How a lane reads its source: its files in their order, shuffled, cut into batches.

Reading runs ahead in a thread of its own. A lane goes on behind any committed state, and the rows
before it are not read again, unless the caller asks for a replay.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from itertools import islice

from pipeline_lib import shuffling
from pipeline_lib.corpus.batches import (
    NOTHING_VISITED,
    USUAL_PROBES,
    Batcher,
    DocumentBatch,
    Probing,
    VisitCounts,
)
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.state import ReaderMetadata, ShuffleMetadata
from pipeline_lib.engines import Prefetched
from pipeline_lib.errors import SourceChanged
from pipeline_lib.records import Cursor
from pipeline_lib.shuffling import Dice, Row, RowBlock, ShuffleBuffer, ShuffleState
from pipeline_lib.sources import parquet
from pipeline_lib.sources.corpus_source import CorpusSource, blocks
from pipeline_lib.sources.hub_files import HubSource

READ_AHEAD = 2
"""Items that are kept ready between two stages of a lane."""
AT_THE_START = ShuffleState(shuffling.START, 0, [], False)
"""The state of a shuffle that has read nothing."""


def reader_metadata(source: CorpusSource, recipe: Recipe) -> ReaderMetadata:
    """How rows are read and ordered, as the checkpoint records it."""
    seed = recipe.seed
    streams = range(shuffling.DOCUMENT_STREAM, shuffling.DOCUMENT_STREAM + recipe.lanes)
    return ReaderMetadata(
        files=shuffling.file_order((file["name"] for file in source.files), seed),
        sizes={file["name"]: file["size"] for file in source.files},
        footers={f["name"]: f["footer"] for f in source.files if "footer" in f},
        interface=parquet.INTERFACE,
        column=recipe.text_column,
        batch_size=recipe.tokenization_batch_size,
        read=dict(parquet.READ_SETTINGS),
        shuffle=ShuffleMetadata(
            algorithm=shuffling.SHUFFLE,
            files=[seed, shuffling.FILE_STREAM],
            documents=[[seed, stream] for stream in streams],
        ),
    )


def files_of_lane(reader: ReaderMetadata, lane: int, lanes: int) -> list[str]:
    """The files that fall to one lane, in order: they are dealt out like cards."""
    return reader["files"][lane::lanes]


def rows_of_lanes(
    source: CorpusSource, recipe: Recipe, rows: Mapping[str, int] | None
) -> list[int | None]:
    """Rows in the files of each lane, given the rows of each file; None where they are unknown."""
    reader = reader_metadata(source, recipe)
    lanes = [files_of_lane(reader, lane, recipe.lanes) for lane in range(recipe.lanes)]
    return [None if rows is None else sum(rows[name] for name in names) for names in lanes]


def check_first_file(source: CorpusSource, recipe: Recipe) -> None:
    """Fetch the first file of a run over a Hub dataset and check its text column.

    So a wrong name is found before the run leaves anything behind. The files of a folder were
    checked when they were listed.
    """
    if isinstance(source, HubSource):
        first = shuffling.file_order((file["name"] for file in source.files), recipe.seed)[0]
        parquet.open_text(source.path(first), recipe.text_column).close()


class LaneReader:
    """Reads ``files`` in this order, up to ``max_rows`` visited rows if that is not None.

    ``probing`` picks the documents that are compared with the reference encoder.
    """

    def __init__(
        self,
        source: CorpusSource,
        recipe: Recipe,
        lane: int,
        files: list[str],
        max_rows: int | None,
        probing: Probing = USUAL_PROBES,
    ) -> None:
        self._source, self._recipe, self._lane = source, recipe, lane
        self.files, self._max_rows, self._probing = files, max_rows, probing

    def blocks(self, start: Cursor) -> Generator[RowBlock, None, None]:
        """The rows of the files in their order, from a cursor on."""
        return blocks(self._source, self.files, self._recipe.text_column, start)

    def batches(
        self, start: ShuffleState, seen: VisitCounts, commit_due: Callable[[], bool]
    ) -> Generator[DocumentBatch, None, None]:
        """The batches behind a committed state, of which ``seen`` are the counts."""
        recipe = self._recipe
        dice = Dice(recipe.seed, shuffling.DOCUMENT_STREAM + self._lane, start.draws)
        shuffle = ShuffleBuffer.restored(
            start, dice, recipe.shuffle_buffer, recipe.shuffle_buffer_bytes
        )
        with closing(Prefetched(self.blocks(start.cursor), READ_AHEAD)) as ahead:
            rows: Iterator[Row] = shuffle.run(ahead)
            if self._max_rows is not None:
                rows = islice(rows, self._max_rows - seen.rows)
            yield from Batcher(recipe, seen, self._probing).batches(shuffle, rows, commit_due)

    def replayed_batches(
        self, seen: VisitCounts, commit_due: Callable[[], bool]
    ) -> Generator[DocumentBatch, None, None]:
        """The batches behind a committed state, after all rows before it were read again.

        ``SourceChanged`` if those rows give other counts or another digest than ``seen``.
        """
        batches = self.batches(AT_THE_START, NOTHING_VISITED, commit_due)
        found = replay_source_prefix(batches, seen)
        if found != seen:
            raise SourceChanged(
                f"reading the first {seen.rows:,} rows again gives {found}, the checkpoint "
                f"has {seen}; the source was changed or shortened: restore it, or start a "
                "fresh run in another output folder"
            )
        return batches


def replay_source_prefix(batches: Iterator[DocumentBatch], target: VisitCounts) -> VisitCounts:
    """Read batches until ``target.rows`` rows are visited; returns the counts up to there."""
    seen = NOTHING_VISITED
    while seen.rows < target.rows:
        batch = next(batches, None)
        if batch is None:
            break
        seen = batch.seen
    return seen
