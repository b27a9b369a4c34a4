"""The normalising stage: rows of saved data sets become checked conversations on disk.

Each source has its own store in the cache. Later stages depend only on the digest of the
conversations, so an edit that changes no conversation rebuilds nothing.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from pipeline_lib.chat import missing
from pipeline_lib.chat.opened import OpenedSources
from pipeline_lib.chat.row_results import Normalizer
from pipeline_lib.chat.rows import SourceRows
from pipeline_lib.chat.source_store import Choice, SourceStore
from pipeline_lib.chat.store import Conversations, stored_source
from pipeline_lib.chat.store_record import SourceReport, StoreDetails
from pipeline_lib.errors import SourceError
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.keyed_folder import KeyedFolder, Record
from pipeline_lib.table import Table

WARN_SHARE = 0.05
"""If more than this share of the rows of a source is rejected, the log warns."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Normalized:
    """The normalised conversations of all sources.

    ``train`` and ``val``: the two splits. ``reports``: source -> ``SourceReport``. ``folders``: the
    cache folder of each source. ``missing``: source that was asked for and gives nothing to train
    on -> the reason; ``train`` has it too, for the tables of later stages.
    """

    train: Conversations
    val: Conversations
    reports: dict[str, SourceReport]
    folders: tuple[Path, ...]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """A table with a row for each source.

        Columns: ``source``, ``rows``, ``train``, ``val``, ``rejected``, ``most frequent reason``;
        with missing sources ``note``.
        """
        names = ("source", "rows", "train", "val", "rejected", "most frequent reason")
        rows = (
            (name, r.rows, r.train, r.val, r.rejected, _most_frequent(r.rejects))
            for name, r in self.reports.items()
        )
        return missing.with_notes(Table(names, tuple(rows)), missing.as_notes(self.missing))

    @property
    def reasons(self) -> Table:
        """A table of all reasons for rejections, notes of kept rows, and outcomes of messages.

        Columns: ``source``, ``what`` (``rejected``, ``noted`` or ``messages``), ``why``, ``rows``.
        """
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


def normalize(
    sources: Mapping[str, SourceRows],
    normalizers: Mapping[str, Normalizer],
    cache: CacheOptions,
    *,
    seed: int,
    val_fraction: float = 0.05,
    limit: int = -1,
    allow_missing: Collection[str] = (),
) -> Normalized:
    """Normalise every source, or open the stored result of an equal run; resume a stopped one.

    ``sources``: name -> rows, as ``open_sources`` gives them. ``normalizers``: name -> function
    from a row (a dict) to ``Turns``, ``Pair`` or ``Reject``; an exception rejects its row.
    ``val_fraction``: share of the validation split. ``limit``: take a seeded sample of that many
    rows of each source (paths of a tree source); -1 takes all.

    The split depends on the stripped content of the first user turn (for a document, on its text),
    so copies that differ only in white space around it are in the same split.

    A source is missing if it has no normalizer, if its rows can not be read, or if no row of it is
    in the training split. ``MissingSources`` names all that are missing and not in
    ``allow_missing``, after the others were stored; the allowed ones are in ``missing`` of the
    results. ``CacheError`` for a damaged cache; ``Locked`` if another process normalises a source.
    """
    absent = dict(sources.missing) if isinstance(sources, OpenedSources) else {}
    chosen = [*sources, *absent]
    absent |= {n: _NO_NORMALIZER for n in sources if not callable(normalizers.get(n))}
    missing.accept(absent, chosen, allow_missing)  # now, not after an hour
    choice, stores = Choice(seed, val_fraction, limit), dict[str, _Store]()
    for name in [name for name in sources if name not in absent]:
        try:
            source = SourceStore(name, sources[name], normalizers[name], cache, choice)
            stores[name] = _store(source)
        except _FAULTS_OF_ONE_SOURCE as error:
            absent[name] = str(error)
    absent |= {name: reason for name in stores if (reason := _nothing_to_train(stores[name]))}
    return _normalized(stores, missing.accept(absent, chosen, allow_missing))


def _normalized(stores: Mapping[str, "_Store"], absent: Mapping[str, str]) -> Normalized:
    return Normalized(
        Conversations([stored_source(n, *store, "train") for n, store in stores.items()], absent),
        Conversations([stored_source(n, *store, "val") for n, store in stores.items()]),
        {name: record.details.report for name, (_, record) in stores.items()},
        tuple(folder.path for folder, _ in stores.values()),
        absent,
    )


_Store = tuple[KeyedFolder, Record[StoreDetails]]
_NO_NORMALIZER = "it has no normalizer; add one to NORMALIZERS"
_FAULTS_OF_ONE_SOURCE = (SourceError, pa.ArrowException, UnicodeError)
"""What is wrong with its rows; a damaged cache, a full disk or a lock concerns the run."""


def _nothing_to_train(store: _Store) -> str:
    """Why a source gives no conversation to train on; empty if it does."""
    report = store[1].details.report
    if report.train:
        return ""
    if not report.rows:
        return "it has no row; look at SAMPLE_LIMIT and at the data set"
    if report.rejected == report.rows:
        return f"{_rejections(report)}; correct its normalizer"
    return (
        f"none of its {report.rows:,} rows is in the training split: {report.val:,} are held out; "
        "take more rows, or lower VAL_FRACTION"
    )


def _store(source: SourceStore) -> _Store:
    """The complete store of one source, checked."""
    record = source.record()
    check_rejections(source.name, record.details.report)
    return source.folder, record


def check_rejections(name: str, report: SourceReport) -> None:
    """Warn if many rows were rejected."""
    if WARN_SHARE * report.rows < report.rejected < report.rows:
        _log.warning("%s: %s", name, _rejections(report))


def _rejections(report: SourceReport) -> str:
    often = sorted(report.rejects.items(), key=lambda item: -item[1])[:3]
    worst = ", ".join(f"{reason}: {count:,}" for reason, count in often)
    text = f"{report.rejected:,} of {report.rows:,} rows rejected ({worst})"
    if report.first_traceback:
        text += f"; the first traceback:\n{report.first_traceback}"
    return text
