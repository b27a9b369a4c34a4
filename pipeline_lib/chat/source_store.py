"""The store of one source: used as it is, continued, or made again.

Stored conversations are used again if two things hold. The key is the same: rows, selection, and
all code that the walk of ``code_identity`` reaches. And the rows that the probe runs again give the
results that are recorded.
"""

import logging
from dataclasses import dataclass, replace

from pipeline_lib import selection
from pipeline_lib.chat import probe
from pipeline_lib.chat.code_identity import CodeIdentity, changed_between, code_identity
from pipeline_lib.chat.conversation import Pair, Turns
from pipeline_lib.chat.row_results import Normalizer, RowResult, Side, result_of
from pipeline_lib.chat.rows import PickedRows, SourceRows
from pipeline_lib.chat.store_record import StoreDetails
from pipeline_lib.chat.store_writer import StoreWriter
from pipeline_lib.records import DataRow
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.growing_folder import GrowingFolder
from pipeline_lib.storage.keyed_folder import Key, KeyedFolder, Record

STORE_VERSION = 4
"""Increased when equal results of a normalizer are stored in another form or another split."""
KIND = "normalized-"
"""The start of the name of a source's folder in the cache."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """The selection and the split, for every source."""

    seed: int
    val_fraction: float
    limit: int


class SourceStore:
    """The stored conversations of one source."""

    def __init__(
        self,
        name: str,
        rows: SourceRows,
        normalizer: Normalizer,
        cache: CacheOptions,
        choice: Choice,
    ) -> None:
        self.name, self._rows, self._cache, self._choice = name, rows, cache, choice
        self._normalizer, self._side = normalizer, side_of(choice.seed, choice.val_fraction)
        self._code = code_identity(normalizer)
        self._library = code_identity(DECIDE_WHAT_IS_STORED)
        self.folder = KeyedFolder(cache.root, KIND + name, self._key())

    def _key(self) -> Key:
        return {
            "store_version": STORE_VERSION,
            "source": self.name,
            "rows": self._rows.fingerprint,
            "columns": list(self._rows.columns),
            "tree": self._rows.tree,
            "seed": self._choice.seed,
            "val_fraction": self._choice.val_fraction,
            "limit": self._choice.limit,
            "limit_selects": f"seeded sample, version {selection.SELECTION_VERSION}",
            "normalizer": self._code.sha256,
            "library": self._library.sha256,
        }

    def record(self) -> Record[StoreDetails]:
        """The record of the complete store, which is made or continued if it must be."""
        record = self.folder.load(StoreDetails)
        refused = self._refusal(record) if record is not None and record.complete else ""
        if record is None or not record.complete or refused:
            with GrowingFolder(self.folder, StoreDetails, StoreDetails()) as writer:
                if refused := refused or self._refusal(writer.record):
                    _log.warning("%s: %s; normalising again", self.name, refused)
                    writer.start_over()
                record = self._made(writer)
        self.folder.check(record, full=self._cache.full)
        return record

    def _refusal(self, record: Record[StoreDetails] | None) -> str:
        """Why stored rows can not be used; empty if they can."""
        if self._code.unresolved:
            return (
                "some things that its normalizer uses can not be pinned down "
                f"({', '.join(self._code.unresolved)})"
            )
        if record is None:
            return ""
        if record.details.changed:
            return (
                "what its normalizer uses was changed while its rows were normalised "
                f"({', '.join(record.details.changed)})"
            )
        return self._probe_s_refusal(record.details)

    def _probe_s_refusal(self, details: StoreDetails) -> str:
        if not details.repeatable:
            _log.warning("%s: %s", self.name, _NOT_REPEATABLE)
            return ""
        tried, found = probe.run_again(
            details.probed, self._rows, self._normalised, self._cache.clock
        )
        if found is None:
            _log.info("%s: %d rows run again give what is stored", self.name, tried)
            return ""
        if not found.repeats:
            _log.warning("%s: row %s: %s", self.name, f"{found.row:,}", _NOT_REPEATABLE)
            return ""
        return (
            "its code is the same, but it gives another result than stored "
            f"(row {found.row:,}; stored: {found.old}; now: {found.new})"
        )

    def _normalised(self, row: DataRow) -> RowResult:
        return result_of(row, self._normalizer, self._side)

    def _made(self, folder: GrowingFolder[StoreDetails]) -> Record[StoreDetails]:
        if folder.done:
            _log.info("%s: resuming at row %s", self.name, f"{folder.done:,}")
        picked = PickedRows(self.name, self._rows, self._choice.seed, self._choice.limit)
        places = probe.picked_places(len(picked), self._choice.seed, self.name)

        def on_progress(done: int) -> None:
            if self._cache.on_progress:
                self._cache.on_progress(self.name, done, len(picked))

        writer = StoreWriter(folder, self._normalised, self._changes, self._cache)
        return writer.run(picked, places, on_progress, self._finished)

    def _finished(self, details: StoreDetails) -> StoreDetails:
        """The details of the complete store: whether the key still says what ran."""
        library = code_identity(DECIDE_WHAT_IS_STORED)
        changed = {*details.changed, *self._changes(), *_changes(self._library, library)}
        if changed:
            _log.warning("%s: %s (%s)", self.name, _CHANGED, ", ".join(sorted(changed)))
        repeats = bool(changed) or self._repeats(details)
        return replace(details, changed=tuple(sorted(changed)), repeatable=repeats)

    def _repeats(self, details: StoreDetails) -> bool:
        """Whether the recorded rows give the same results a second time."""
        _, found = probe.run_again(
            details.probed, self._rows, self._normalised, self._cache.clock, probe.LEAST
        )
        if found is not None:
            _log.warning(
                "%s: row %s gave two results (first: %s; then: %s): %s",
                *(self.name, f"{found.row:,}", found.old, found.new, _NOT_REPEATABLE),
            )
        return found is None

    def _changes(self) -> tuple[str, ...]:
        return _changes(self._code, code_identity(self._normalizer))


def _changes(before: CodeIdentity, now: CodeIdentity) -> tuple[str, ...]:
    """What is no longer as it was when the key was made."""
    same = before.sha256 == now.sha256
    return () if same else changed_between(before, now) or ("its code",)


_NOT_REPEATABLE = (
    "its normalizer is not repeatable, so what is stored is used as long as its code is the same"
)
_CHANGED = (
    "what its normalizer uses was changed while its rows were normalised, so the rows may not "
    "agree, and the next run normalises them again"
)


def side_of(seed: int, val_fraction: float) -> Side:
    """The function that gives the side of a conversation, by its first user turn."""
    prefix, threshold = selection.identity_prefix(seed), selection.val_threshold(val_fraction)

    def side(conversation: Turns | Pair) -> selection.Split:
        turns = conversation.prompt if isinstance(conversation, Pair) else conversation
        first = next((turn for turn in turns if turn["role"] == "user"), turns[0])
        identity = selection.identity(prefix, first["content"].strip().encode())
        return selection.side(identity, threshold)

    return side


DECIDE_WHAT_IS_STORED = (PickedRows, result_of, StoreWriter, side_of, probe.picked_places)
"""The library code that decides the stored content; the walk finds everything that it reaches."""
