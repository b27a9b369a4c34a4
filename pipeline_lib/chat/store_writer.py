"""Writes the checked conversations of one source to its folder, part by part.

The end of a part depends only on the rows, never on time or interruptions. A commit before the end
of a part, by the clock or because the run stops, writes the open part as a tail file, which the
next commit replaces. So a run goes on behind the last committed row, and its finished files are
those of an undisturbed run.
"""

from collections.abc import Callable
from dataclasses import replace

from pipeline_lib.chat.row_results import Normalizer, RowResult, Side, result_of
from pipeline_lib.chat.rows import READ_ROWS, PickedRows
from pipeline_lib.chat.store_format import encode_part, read_part
from pipeline_lib.chat.store_progress import StoreProgress, resumed
from pipeline_lib.chat.store_record import PartFile, StoreDetails
from pipeline_lib.records import DataRow
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.growing_folder import GrowingFolder
from pipeline_lib.storage.keyed_folder import Record


class StoreWriter:
    """Normalises the rows that a folder does not hold yet, and commits them."""

    def __init__(
        self,
        folder: GrowingFolder[StoreDetails],
        normalizer: Normalizer,
        side: Side,
        cache: CacheOptions,
    ) -> None:
        self._folder, self._normalizer, self._side, self._cache = folder, normalizer, side, cache
        tail = folder.details.tail
        held = {split: read_part(folder.checked(part.file)) for split, part in tail.items()}
        # one name, assigned in one step: the settled rows, and the results of rows after them
        self._state = (resumed(folder.details, held), list[RowResult]())
        self._messages: dict[str, int] = {}
        self._saved = cache.clock()

    def run(self, rows: PickedRows, on_progress: Callable[[int], None]) -> Record[StoreDetails]:
        """Add the missing rows; ``on_progress`` is called with the number of finished rows.

        When it stops for any reason, the rows so far are committed.
        """
        self._messages = rows.messages
        try:
            self._fill(rows, on_progress)
        except BaseException:
            self._commit()
            raise
        return self._folder.commit(complete=True)

    def _fill(self, rows: PickedRows, on_progress: Callable[[int], None]) -> None:
        while True:
            progress, done = self._state[0], self._state[0].done
            if progress.full and done % READ_ROWS == 0:
                self._end_part()
                self._commit()
            if done == len(rows):
                return self._end_part()
            stop = min(done - done % READ_ROWS + READ_ROWS, len(rows))
            for row in rows.block(done, stop):
                self._take(row)
            self._settle()
            on_progress(stop)

    def _take(self, row: DataRow) -> None:
        self._state[1].append(result_of(row, self._normalizer, self._side))
        now = self._cache.clock()
        if now - self._saved >= self._cache.save_every_seconds:
            self._commit()
            self._saved = now

    def _settle(self) -> StoreProgress:
        progress, taken = self._state
        if taken:
            self._state = (progress.plus(taken), [])
        return self._state[0]

    def _commit(self) -> None:
        """Make all rows so far durable; the open part as a tail file."""
        progress = self._settle()
        if progress.done != self._folder.done:
            self._folder.discard()  # files of a part whose end was interrupted
            tail = self._write(progress, f"tail-{progress.done:09d}")
            self._advance(progress, self._folder.details.parts, tail)
        self._folder.commit(complete=False)

    def _end_part(self) -> None:
        progress, parts = self._settle(), self._folder.details.parts
        part = self._write(progress, f"{len(parts):05d}")
        self._advance(progress, (*parts, part) if part else parts, {})
        self._state = (progress.closed(), [])

    def _write(self, progress: StoreProgress, name: str) -> dict[str, PartFile]:
        part = dict[str, PartFile]()
        for split, conversations in progress.open.items():
            if conversations:
                file = f"{split}-{name}.arrow"
                self._folder.write(file, memoryview(encode_part(conversations)))
                part[split] = PartFile(file, len(conversations))
        return part

    def _advance(
        self,
        progress: StoreProgress,
        parts: tuple[dict[str, PartFile], ...],
        tail: dict[str, PartFile],
    ) -> None:
        report = replace(progress.report, messages=self._messages)
        details = StoreDetails(parts, tail, progress.digests, report)
        replaced = [part.file for part in self._folder.details.tail.values()]
        self._folder.advance(progress.done, details, drop=replaced)
