"""A cache folder under the one commit rule: files that grow together, one record of what is real.

``meta.json`` says how many conversations are done, how long each file is, the digest of each of
its segments, and what was counted on the way. Files are appended to and fsynced before the
record names their new length; reopening cuts them to it and goes on at that conversation.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest, machine, parquet
from pipeline_lib.caches.cachekey import META, Key, cache_folder, explain, load_meta, remedy
from pipeline_lib.caches.cachesite import CacheSite
from pipeline_lib.caches.segmented import FileRecord, SegmentedFile, check_file
from pipeline_lib.durable import atomic, folders
from pipeline_lib.errors import CacheError, DamagedFile
from pipeline_lib.lock import FolderLock

Counts = dict[str, dict[str, int]]
"""Source -> what was counted -> how often."""

_log = logging.getLogger(__name__)


class Block(NamedTuple):
    """What one write batch adds: an array for each file, and counts for each source."""

    arrays: Mapping[str, NDArray[Any]]
    counts: Counts


@dataclass(frozen=True)
class Plan:
    """How a cache is made: ``encode(start, stop)`` gives the block of those conversations.

    ``files`` names the files that a block fills, ``total`` is the number of conversations and
    ``batch`` how many are written at a time.
    """

    kind: str
    key: Key
    files: Sequence[str]
    total: int
    batch: int
    encode: Callable[[int, int], Block]


@dataclass(frozen=True)
class Cache:
    """A complete cache: its folder, record, and why it was used or built."""

    folder: Path
    meta: Mapping[str, Any]
    explanation: str

    @property
    def counts(self) -> Counts:
        """What was counted when it was made, for each source."""
        counts: Counts = self.meta["counts"]
        return counts

    @property
    def fingerprint(self) -> str:
        """SHA-256 over everything the files hold."""
        return digest.of_json(self.meta["files"])

    def size(self, name: str) -> int:
        """Committed bytes of a file."""
        return int(self.meta["files"][name]["size"])

    def path(self, name: str) -> Path:
        """Where a file lies."""
        return self.folder / name


def open_or_build(site: CacheSite, plan: Plan) -> Cache:
    """The cache of a plan: used if complete, continued if unfinished, else built.

    ``CacheError`` if a file is not what its record says, ``Locked`` if another process builds
    the same cache.
    """
    folder = cache_folder(site.root, plan.kind, plan.key)
    why = explain(site.root, plan.kind, plan.key)
    meta = load_meta(folder, plan.key)
    if meta is None or not meta["complete"]:
        _log.info("%s", why)
        folders.make_folder(folder)
        with FolderLock(folder / "lock"):
            meta = _build(folder, plan, site)
        _check_files(folder, plan, meta, full=site.full)
    else:
        _check_files(folder, plan, meta, full=site.full)
        _log.info("%s", why)  # only now: it says that the cache is complete
    return Cache(folder, meta, why)


def _check_files(folder: Path, plan: Plan, meta: Mapping[str, Any], *, full: bool) -> None:
    for name in plan.files:
        with _with_remedy(folder):
            check_file(folder / name, _record(meta, name), full=full)


def _build(folder: Path, plan: Plan, site: CacheSite) -> dict[str, Any]:
    with _with_remedy(folder):
        growing = _Growing(folder, plan)
    try:
        return growing.run(site)
    finally:
        growing.close()


class _State(NamedTuple):
    """A point that may be committed: whole write batches only."""

    done: int
    records: dict[str, FileRecord]
    counts: Counts


class _Growing:
    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder, self._plan = folder, plan
        self._meta = load_meta(folder, plan.key)
        meta = self._meta or {"done": 0, "counts": {}, "files": {}}
        self._files: dict[str, SegmentedFile] = {}
        try:
            for name in plan.files:
                record = _record(meta, name)
                if self._meta:
                    check_file(folder / name, record, full=False)
                self._files[name] = SegmentedFile(folder / name, record)
        except BaseException:
            self.close()
            raise
        self._state = _State(meta["done"], self._records(), meta["counts"])

    def _records(self) -> dict[str, FileRecord]:
        return {name: file.record() for name, file in self._files.items()}

    def run(self, site: CacheSite) -> dict[str, Any]:
        """Encode what is missing; commits by the clock, at the end, and when interrupted."""
        if self._state.done:
            _log.info("%s: resuming at conversation %s", self._folder.name, f"{self._state.done:,}")
        try:
            self._encode(site)
        except KeyboardInterrupt:
            self._commit()
            _log.info("%s: stopped at conversation %s", self._folder.name, f"{self._state.done:,}")
            raise
        if self._meta and self._meta["complete"]:  # the clock asked for it behind the last batch
            return self._meta
        return self._commit()

    def _encode(self, site: CacheSite) -> None:
        plan, saved, ceiling = self._plan, site.clock(), machine.Ceiling(parquet.release_unused)
        for start in range(self._state.done, plan.total, plan.batch):
            stop = min(start + plan.batch, plan.total)
            block = plan.encode(start, stop)
            for name in plan.files:
                self._files[name].append(np.ascontiguousarray(block.arrays[name]).data)
            counts = added(self._state.counts, block.counts)
            self._state = _State(stop, self._records(), counts)  # one step: never half a batch
            ceiling.keep()
            if site.on_progress:
                site.on_progress(plan.kind, stop, plan.total)
            if site.clock() - saved >= site.save_every_seconds:
                self._commit()
                saved = site.clock()

    def _commit(self) -> dict[str, Any]:
        state = self._state
        for file in self._files.values():
            file.sync()
        folders.sync_folder(self._folder)
        meta = {
            "key": self._plan.key,
            "done": state.done,
            "complete": state.done == self._plan.total,
            "files": {
                name: {"size": record.size, "segments": list(record.segments)}
                for name, record in state.records.items()
            },
            "counts": state.counts,
        }
        atomic.save_json(self._folder / META, meta)
        self._meta = meta
        return meta

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _record(meta: Mapping[str, Any], name: str) -> FileRecord:
    entry = meta["files"].get(name, {"size": 0, "segments": []})
    return FileRecord(int(entry["size"]), tuple(entry["segments"]))


def added(old: Counts, new: Counts) -> Counts:
    """The sum of two counts, of each thing for each source."""
    merged = {source: dict(counts) for source, counts in old.items()}
    for source, counts in new.items():
        into = merged.setdefault(source, {})
        for what, count in counts.items():
            into[what] = into.get(what, 0) + int(count)
    return merged


@contextlib.contextmanager
def _with_remedy(folder: Path) -> Iterator[None]:
    try:
        yield
    except DamagedFile as error:
        raise CacheError(f"{error}; {remedy(folder)}") from error
