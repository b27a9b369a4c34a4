"""Writes the checked conversations of one source to its folder, part by part.

The end of a part depends only on the rows, never on time or interruptions. A commit before the end
of a part, by the clock or because the run stops, writes the open part as a tail file, which the
next commit replaces. So a run goes on behind the last committed row, and its finished files are
those of an undisturbed run.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from pipeline_lib.chat import probe
from pipeline_lib.chat.row_results import RowResult
from pipeline_lib.chat.rows import READ_ROWS, PickedRows
from pipeline_lib.chat.store_format import encode_part, read_part
from pipeline_lib.chat.store_progress import StoreProgress, resumed
from pipeline_lib.chat.store_record import PartFile, ProbedRow, StoreDetails
from pipeline_lib.records import DataRow
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.growing_folder import GrowingFolder
from pipeline_lib.storage.keyed_folder import Record


class StoreWriter:
    """Normalises the rows that a folder does not hold yet, and commits them."""

    def __init__(
        self,
        folder: GrowingFolder[StoreDetails],
        normalised: Callable[[DataRow], RowResult],
        changed: Callable[[], Iterable[str]],
        cache: CacheOptions,
    ) -> None:
        """``normalised`` gives the result of a row, ``changed`` what changed of the code since."""
        self._folder, self._normalised, self._changed = folder, normalised, changed
        self._cache = cache
        tail = folder.details.tail
        held = {split: read_part(folder.checked(part.file)) for split, part in tail.items()}
        # one name, assigned in one step: the settled rows, and the results of rows after them
        self._state = (resumed(folder.details, held), list[RowResult]())
        self._due = cache.clock() + cache.save_every_seconds

    def run(
        self,
        rows: PickedRows,
        probe_at: Collection[int],
        on_progress: Callable[[int], None],
        finish: Callable[[StoreDetails], StoreDetails],
    ) -> Record[StoreDetails]:
        """Add the missing rows; ``on_progress`` is called with the number of finished rows.

        When it stops for any reason, the rows so far are committed. ``probe_at``: places of the
        rows that the probe records. ``finish`` adds to the details what is known at the end.
        """
        self._rows, self._probe_at = rows, probe_at
        try:
            self._fill(on_progress)
            details = finish(self._folder.details)
        except BaseException:
            if self._folder.sure:
                self._commit()
            raise
        self._folder.advance(self._folder.done, details)
        return self._folder.commit(complete=True)

    def _fill(self, on_progress: Callable[[int], None]) -> None:
        while True:
            progress, done = self._state[0], self._state[0].done
            if progress.full and done % READ_ROWS == 0:
                self._end_part()
                self._commit()
            if done == len(self._rows):
                return self._end_part()
            stop = min(done - done % READ_ROWS + READ_ROWS, len(self._rows))
            for row in self._rows.block(done, stop):
                self._take(row)
            self._settle()
            on_progress(stop)

    def _take(self, row: DataRow) -> None:
        self._state[1].append(self._normalised(row))
        began = self._cache.clock()
        if began >= self._due:
            self._commit()
            ended = self._cache.clock()
            # a commit writes the open part whole, so commits get at most half of the time
            self._due = ended + max(self._cache.save_every_seconds, ended - began)

    def _settle(self) -> StoreProgress:
        progress, taken = self._state
        if taken:
            self._state = (progress.plus(taken, self._probed(progress.done, taken)), [])
        return self._state[0]

    def _probed(self, done: int, taken: list[RowResult]) -> list[ProbedRow]:
        return [
            probe.probed(self._rows.address(place), result)
            for place, result in enumerate(taken, done)
            if place in self._probe_at
        ]

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
        before = self._folder.details
        details = replace(
            before,
            parts=parts,
            tail=tail,
            digests=progress.digests,
            report=replace(progress.report, messages=self._rows.messages),
            probed=progress.probed,
            changed=tuple(sorted({*before.changed, *self._changed()})),
        )
        replaced = [part.file for part in before.tail.values()]
        self._folder.advance(progress.done, details, drop=replaced)
