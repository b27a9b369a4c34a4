"""Writes the checked conversations of one source to its folder, part by part.

A part has files of its own, so an interrupted run continues after the last committed part. The end
of a part depends only on the rows, never on time or interruptions.
"""

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from pipeline_lib import digest, selection
from pipeline_lib.chat.conversation import Pair, Reject, Result, Turns, check_result
from pipeline_lib.chat.rows import READ_ROWS, PickedRows
from pipeline_lib.chat.store_format import conversation_bytes, encode_part
from pipeline_lib.records import DataRow
from pipeline_lib.storage.growing_folder import GrowingFolder
from pipeline_lib.storage.keyed_folder import Record

Normalizer = Callable[[DataRow], Result]
"""A function from a row of a data set to turns, a pair or a rejection."""
Side = Callable[[Turns | Pair], selection.Split]

PART_ROWS, PART_BYTES = 20_000, 16 << 20
_REASONS = 200
_SPLITS: tuple[selection.Split, ...] = ("train", "val")


@dataclass(frozen=True)
class SourceReport:
    """The outcome of normalising one source.

    ``rows``: rows that were read. ``train`` and ``val``: conversations of each split. ``rejects``:
    rejected rows by reason. ``notes``: kept rows by note. ``messages``: single messages of a tree
    source by outcome. ``first_traceback``: of the first exception in the normalizer.
    """

    rows: int = 0
    train: int = 0
    val: int = 0
    rejects: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    first_traceback: str = ""

    @property
    def rejected(self) -> int:
        """Number of rejected rows."""
        return sum(self.rejects.values())


@dataclass(frozen=True)
class PartFile:
    """One file of a part: the conversations of one split."""

    file: str
    rows: int


@dataclass(frozen=True)
class StoreDetails:
    """The details in the record of a store.

    ``parts``: for each part, split -> file, for the splits that have conversations in it.
    ``digests``: split -> running digest of its conversations (hex).
    """

    parts: tuple[dict[str, PartFile], ...] = ()
    digests: dict[str, str] = field(
        default_factory=lambda: dict.fromkeys(_SPLITS, digest.Chain().state)
    )
    report: SourceReport = field(default_factory=SourceReport)


class StoreWriter:
    """Normalises the rows that a folder does not hold yet and commits them part by part."""

    def __init__(self, folder: GrowingFolder[StoreDetails], normalizer: Normalizer, side: Side):
        self._folder, self._normalizer, self._side = folder, normalizer, side
        details = folder.details
        self._parts, report = details.parts, details.report
        self._rows, self._first_traceback = report.rows, report.first_traceback
        self._rejects, self._notes = Counter(report.rejects), Counter(report.notes)
        self._kept = Counter({"train": report.train, "val": report.val})
        self._chains = {split: digest.Chain(details.digests[split]) for split in _SPLITS}
        self._begin_part()

    def _begin_part(self) -> None:
        self._waiting: dict[str, list[Turns | Pair]] = {split: [] for split in _SPLITS}
        self._bytes = 0

    def run(self, rows: PickedRows, on_progress: Callable[[int], None]) -> Record[StoreDetails]:
        """Add the missing rows; ``on_progress`` is called with the number of finished rows."""
        for start in range(self._folder.done, len(rows), READ_ROWS):
            for row in rows.block(start):
                self._take(self._normalized(row))
            done = min(start + READ_ROWS, len(rows))
            if max(map(len, self._waiting.values())) >= PART_ROWS or self._bytes >= PART_BYTES:
                self._end_part(done, rows.messages)
                self._folder.commit(complete=False)
            on_progress(done)
        self._end_part(len(rows), rows.messages)
        return self._folder.commit(complete=True)

    def _normalized(self, row: DataRow) -> Turns | Pair | Reject:
        try:
            return check_result(self._normalizer(row), row)
        except Reject as reject:
            return reject
        except Exception as error:  # the user's code: one bad row must not stop a million others
            self._first_traceback = self._first_traceback or traceback.format_exc()[-4_000:]
            return Reject(f"raised {type(error).__name__}")

    def _take(self, result: Turns | Pair | Reject) -> None:
        self._rows += 1
        if isinstance(result, Reject):
            known = result.reason in self._rejects or len(self._rejects) < _REASONS
            self._rejects[result.reason if known else "other reasons"] += 1
            return
        self._notes.update(set(result.notes))
        split, item = self._side(result), conversation_bytes(result)
        self._chains[split].add(item)
        self._waiting[split].append(result)
        self._bytes += len(item)

    def _end_part(self, done: int, messages: dict[str, int]) -> None:
        number, part = len(self._parts), dict[str, PartFile]()
        for split, conversations in self._waiting.items():
            if conversations:
                name = f"{split}-{number:05d}.arrow"
                self._folder.write(name, memoryview(encode_part(conversations)))
                part[split] = PartFile(name, len(conversations))
                self._kept[split] += len(conversations)
        if part:
            self._parts = (*self._parts, part)
        digests = {str(split): chain.state for split, chain in self._chains.items()}
        self._folder.advance(done, StoreDetails(self._parts, digests, self._report(messages)))
        self._begin_part()

    def _report(self, messages: dict[str, int]) -> SourceReport:
        return SourceReport(
            self._rows,
            self._kept["train"],
            self._kept["val"],
            dict(self._rejects),
            dict(self._notes),
            messages,
            self._first_traceback,
        )
