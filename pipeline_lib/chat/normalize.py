"""The normalising stage: rows of saved data sets become checked conversations on disk.

Each source has a folder of its own in the cache, named by a key over its rows, the code of its
normalizer, the library's code that decides what is stored, and the selection. Later stages depend
on the digest of the conversations alone, so an edit that changes no conversation rebuilds nothing.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline_lib import selection
from pipeline_lib.chat.code_identity import CodeIdentity, code_identity
from pipeline_lib.chat.conversation import Pair, Turns
from pipeline_lib.chat.rows import PickedRows, SourceRows
from pipeline_lib.chat.store import Conversations, stored_source
from pipeline_lib.chat.store_writer import (
    Normalizer,
    Side,
    SourceReport,
    StoreDetails,
    StoreWriter,
)
from pipeline_lib.errors import SourceError
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.growing_folder import GrowingFolder
from pipeline_lib.storage.keyed_folder import Key, KeyedFolder, Record
from pipeline_lib.table import Table

STORE_VERSION = 2
"""Raised when the same results of a normalizer are stored otherwise, or on another side."""
KIND = "normalized-"
"""Begins the name of a source's folder in the cache."""
WARN_SHARE = 0.05
"""Of the rows of a source: more rejections than this are a warning."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Normalized:
    """The conversations of both splits, and a report and a cache folder for each source."""

    train: Conversations
    val: Conversations
    reports: dict[str, SourceReport]
    folders: tuple[Path, ...]

    @property
    def table(self) -> Table:
        """Rows, kept conversations and rejections of each source."""
        names = ("source", "rows", "train", "val", "rejected", "most frequent reason")
        rows = (
            (name, r.rows, r.train, r.val, r.rejected, _most_frequent(r.rejects))
            for name, r in self.reports.items()
        )
        return Table(names, tuple(rows))

    @property
    def reasons(self) -> Table:
        """Every reason for a rejection and everything noted of a kept row, with their numbers."""
        kinds = (("rejected", "rejects"), ("noted", "notes"), ("messages", "messages"))
        rows = (
            (name, label, reason, count)
            for name, report in self.reports.items()
            for label, field in kinds
            for reason, count in sorted(getattr(report, field).items())
        )
        return Table(("source", "what", "why", "rows"), tuple(rows))


def _most_frequent(counts: Mapping[str, int]) -> str:
    return max(counts, key=counts.__getitem__, default="")


@dataclass(frozen=True)
class _Choice:
    """What is taken of every source, and how it is split."""

    seed: int
    val_fraction: float
    limit: int


def normalize(
    sources: Mapping[str, SourceRows],
    normalizers: Mapping[str, Normalizer],
    cache: CacheOptions,
    *,
    seed: int,
    val_fraction: float = 0.05,
    limit: int = -1,
) -> Normalized:
    """Normalise every source, or open what an equal run has stored; goes on where one stopped.

    ``limit`` takes that many rows of each source (paths of a tree source), a seeded sample;
    -1 takes all. The split follows the content of the first user turn (of a document, its text)
    without the white space around it, so that copies which differ in nothing else stay on one
    side. ``ValueError`` if a source has no normalizer; ``SourceError`` if all rows of one are
    rejected.
    """
    missing = [name for name in sources if name not in normalizers]
    if missing:
        raise ValueError(f"no normalizer for {', '.join(missing)}; add one to NORMALIZERS")
    choice = _Choice(seed, val_fraction, limit)
    stores = {
        name: _store(name, rows, normalizers[name], cache, choice) for name, rows in sources.items()
    }
    return Normalized(
        Conversations([stored_source(name, *store, "train") for name, store in stores.items()]),
        Conversations([stored_source(name, *store, "val") for name, store in stores.items()]),
        {name: record.details.report for name, (_, record) in stores.items()},
        tuple(folder.path for folder, _ in stores.values()),
    )


def _store(
    name: str, rows: SourceRows, normalizer: Normalizer, cache: CacheOptions, choice: _Choice
) -> tuple[KeyedFolder, Record[StoreDetails]]:
    """The complete store of one source, checked."""
    code = code_identity(normalizer)
    folder = KeyedFolder(cache.root, KIND + name, _key(name, rows, code, choice))
    record = folder.load(StoreDetails)
    if record is None or not record.complete or code.unresolved:
        with GrowingFolder(folder, StoreDetails, StoreDetails()) as writer:
            if code.unresolved:
                _start_over(name, writer, code)
            record = _filled(name, rows, normalizer, cache, choice, writer)
    folder.check(record, full=cache.full)
    check_rejections(name, record.details.report)
    return folder, record


def _start_over(name: str, writer: GrowingFolder[StoreDetails], code: CodeIdentity) -> None:
    _log.warning(
        "%s: what its normalizer depends on can not be pinned down (%s); normalising again",
        name,
        ", ".join(code.unresolved),
    )
    writer.start_over()


def _filled(
    name: str,
    rows: SourceRows,
    normalizer: Normalizer,
    cache: CacheOptions,
    choice: _Choice,
    writer: GrowingFolder[StoreDetails],
) -> Record[StoreDetails]:
    if writer.done:
        _log.info("%s: resuming at row %s", name, f"{writer.done:,}")
    picked = PickedRows(name, rows, choice.seed, choice.limit)

    def on_progress(done: int) -> None:
        if cache.on_progress:
            cache.on_progress(name, done, len(picked))

    side = _side(choice.seed, choice.val_fraction)
    return StoreWriter(writer, normalizer, side).run(picked, on_progress)


def check_rejections(name: str, report: SourceReport) -> None:
    """Warn when many rows were rejected; ``SourceError`` when all were."""
    often = sorted(report.rejects.items(), key=lambda item: -item[1])[:3]
    worst = ", ".join(f"{reason}: {count:,}" for reason, count in often)
    text = f"{name}: {report.rejected:,} of {report.rows:,} rows rejected ({worst})"
    if report.first_traceback:
        text += f"; the first traceback:\n{report.first_traceback}"
    if report.rows and report.rejected == report.rows:
        raise SourceError(f"{text}; correct its normalizer, or leave the source out")
    if report.rejected > WARN_SHARE * report.rows:
        _log.warning("%s", text)


def _key(name: str, rows: SourceRows, code: CodeIdentity, choice: _Choice) -> Key:
    return {
        "store_version": STORE_VERSION,
        "source": name,
        "rows": rows.fingerprint,
        "tree": rows.tree,
        "seed": choice.seed,
        "val_fraction": choice.val_fraction,
        "limit": choice.limit,
        "limit_selects": f"seeded sample, version {selection.SELECTION_VERSION}",
        "normalizer": code.sha256,
        "library": code_identity(DECIDE_WHAT_IS_STORED).sha256,
    }


def _side(seed: int, val_fraction: float) -> Side:
    prefix, threshold = selection.identity_prefix(seed), selection.val_threshold(val_fraction)

    def side(conversation: Turns | Pair) -> selection.Split:
        turns = conversation.prompt if isinstance(conversation, Pair) else conversation
        first = next((turn for turn in turns if turn["role"] == "user"), turns[0])
        identity = selection.identity(prefix, first["content"].strip().encode())
        return selection.side(identity, threshold)

    return side


DECIDE_WHAT_IS_STORED = (PickedRows, StoreWriter, _side)
"""Where the library's own code begins that decides what is stored; what it reaches is found."""
