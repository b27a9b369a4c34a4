"""Getting sources onto the disk, one after the other: fetched, made, or found to be there.

One source that fails stops no other; what became of each is told apart in its ``Outcome``.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from pipeline_lib.downloads import fetch, saved
from pipeline_lib.downloads.plans import EVERYTHING, FetchOptions
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.errors import ColumnError, DamagedFile, PipelineError, SourceError
from pipeline_lib.hub.retry import Gated, Network, NoAccess, NotFound, RateLimited, RevisionNotFound
from pipeline_lib.sampledata import make

Sources = Mapping[str, DatasetSpec]


class Status(StrEnum):
    """How the work on one data set ended."""

    DONE = "done"
    THERE = "already there"
    GATED = "gated, no token"
    NO_ACCESS = "token without access"
    NOT_FOUND = "not found"
    RATE_LIMITED = "rate limited"
    NETWORK = "no network"
    COLUMNS = "columns differ"
    DAMAGED = "damaged"
    FAILED = "failed"

    @property
    def good(self) -> bool:
        """Whether the data set can be used now."""
        return self in (Status.DONE, Status.THERE)


_STATUS_OF: tuple[tuple[type[Exception], Status], ...] = (
    (Gated, Status.GATED),
    (NoAccess, Status.NO_ACCESS),
    (NotFound, Status.NOT_FOUND),
    (RevisionNotFound, Status.NOT_FOUND),
    (RateLimited, Status.RATE_LIMITED),
    (Network, Status.NETWORK),
    (ColumnError, Status.COLUMNS),
    (DamagedFile, Status.DAMAGED),
)


@dataclass(frozen=True)
class Outcome:
    """What became of one data set; ``detail`` says what to do where it is not good."""

    name: str
    status: Status
    rows: int = 0
    size: int = 0
    detail: str = ""

    def __str__(self) -> str:
        facts = f"{self.rows:,} rows, {self.size / 1e6:,.1f} MB" if self.rows else self.detail
        return f"{self.name:14} {self.status:20} {facts}"


def fetch_all(sources: Sources, data_dir: Path, options: FetchOptions) -> list[Outcome]:
    """Fetch every source that is not usable in ``data_dir`` yet."""
    return [
        _outcome(name, partial(_fetch, name, source, data_dir, options))
        for name, source in sources.items()
    ]


def make_all(sources: Sources, data_dir: Path) -> list[Outcome]:
    """Make the offline sample of every source, and the corpus."""
    made = [
        _outcome(name, partial(_make, name, source, data_dir)) for name, source in sources.items()
    ]
    return [*made, _outcome(make.CORPUS, partial(_make_corpus, data_dir / make.CORPUS))]


def _fetch(name: str, source: DatasetSpec, data_dir: Path, options: FetchOptions) -> Outcome:
    there = _usable(data_dir / name, source, options.limit)
    if there is not None:
        return Outcome(name, Status.THERE, there.rows, there.size)
    done = fetch.fetch(name, source, data_dir, options)
    return Outcome(name, Status.DONE, done.rows, done.size)


def _usable(folder: Path, source: DatasetSpec, limit: int) -> saved.Saved | None:
    """What is there already, if it serves; None if there is nothing or only a smaller sample."""
    try:
        there = saved.find(folder)
    except saved.NotSaved:
        return None
    _check_origin(there, source)
    saved.load(folder, source.columns)
    held = there.origin.get("limit", EVERYTHING)
    return there if held == EVERYTHING or 0 < limit <= held else None


def _check_origin(there: saved.Saved, source: DatasetSpec) -> None:
    """``SourceError`` if the folder holds another source than the registry names."""
    pinned = source.revision if len(source.revision) == 40 else there.origin.get("revision")
    wanted = {
        "path": source.path,
        "config": source.config,
        "splits": list(source.splits),
        "revision": pinned,
        "max_bytes": source.max_bytes,
    }
    for key, value in wanted.items():
        found = there.origin.get(key)
        if found != value:
            raise SourceError(
                f"{there.folder} was made with {key} = {found!r}, download_data.py says {value!r}; "
                "remove the folder to fetch it again, or correct the registry"
            )


def _make(name: str, source: DatasetSpec, data_dir: Path) -> Outcome:
    folder = data_dir / name
    with contextlib.suppress(saved.NotSaved):
        there = saved.find(folder)
        if there.origin == make.origin(name):
            saved.load(folder, source.columns)
            return Outcome(name, Status.THERE, there.rows, there.size)
        if not str(there.origin.get("path")).startswith("sample/"):
            raise SourceError(
                f"{folder} holds a download of {there.origin.get('path')}; the sample goes to "
                "another folder, choose it with --data-dir"
            )
    done = make.make_source(name, folder, source.columns)
    return Outcome(name, Status.DONE, done.rows, done.size)


def _make_corpus(folder: Path) -> Outcome:
    status = Status.THERE if folder.exists() else Status.DONE
    files = make.make_corpus(folder)
    rows = make.CORPUS_FILES * make.CORPUS_ROWS
    size = sum(file.stat().st_size for file in files)
    return Outcome(make.CORPUS, status, rows, size)


def _outcome(name: str, work: Callable[[], Outcome]) -> Outcome:
    try:
        return work()
    except (PipelineError, OSError) as error:
        kinds = (status for kind, status in _STATUS_OF if isinstance(error, kind))
        return Outcome(name, next(kinds, Status.FAILED), detail=" ".join(str(error).split()))
