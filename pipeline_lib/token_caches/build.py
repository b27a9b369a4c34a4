"""Token caches: keyed folders whose files grow together, one write batch after another."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest, machine
from pipeline_lib.storage import typed_json
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.growing_folder import GrowingFolder
from pipeline_lib.storage.keyed_folder import Key, KeyedFolder, Record
from pipeline_lib.storage.stored_folders import explain
from pipeline_lib.token_caches.counts import Counts, added

_log = logging.getLogger(__name__)


class CacheRows(NamedTuple):
    """What one write batch adds: an array for each file, by name, and counts for each source."""

    arrays: Mapping[str, NDArray[Any]]
    counts: Counts


@dataclass(frozen=True)
class CacheSpec:
    """How a cache is made: ``encode(start, stop)`` gives the rows of those conversations.

    ``files`` names the files that rows fill, ``total`` is the number of conversations and
    ``batch`` how many are written at a time.
    """

    kind: str
    key: Key
    files: Sequence[str]
    total: int
    batch: int
    encode: Callable[[int, int], CacheRows]


@dataclass(frozen=True)
class Cache:
    """A complete cache: its folder, record, and why it was used or built."""

    folder: Path
    record: Record[Counts]
    explanation: str

    @property
    def counts(self) -> Counts:
        """What was counted when it was made, for each source."""
        return self.record.details

    @property
    def fingerprint(self) -> str:
        """SHA-256 over everything the files hold."""
        return digest.of_json(typed_json.as_plain(self.record.files))

    def size(self, name: str) -> int:
        """Committed bytes of a file; 0 if nothing was ever added to it."""
        return self.record.files[name].size if name in self.record.files else 0

    def path(self, name: str) -> Path:
        """Where a file lies."""
        return self.folder / name


def open_or_build(options: CacheOptions, spec: CacheSpec) -> Cache:
    """The cache of a specification: used if complete, continued if unfinished, else built.

    ``CacheError`` if a file is not what its record says, ``Locked`` if another process builds
    the same cache.
    """
    folder = KeyedFolder(options.root, spec.kind, spec.key)
    why, record = explain(folder), folder.load(Counts)
    if record is None or not record.complete:
        _log.info("%s", why)
        record = _build(folder, spec, options)
    folder.check(record, full=options.full)
    if why.endswith("used as it is"):
        _log.info("%s", why)  # only now is it known to be true
    return Cache(folder.path, record, why)


def _build(folder: KeyedFolder, spec: CacheSpec, options: CacheOptions) -> Record[Counts]:
    """Encode what is missing; commits by the clock, at the end, and when interrupted."""
    name = folder.path.name
    with GrowingFolder(folder, Counts, {}) as writer:
        if writer.done:
            _log.info("%s: resuming at conversation %s", name, f"{writer.done:,}")
        try:
            _encode(writer, spec, options)
        except KeyboardInterrupt:
            writer.commit(complete=False)
            _log.info("%s: stopped at conversation %s", name, f"{writer.done:,}")
            raise
        return writer.commit(complete=True)


def _encode(writer: GrowingFolder[Counts], spec: CacheSpec, options: CacheOptions) -> None:
    saved, ceiling = options.clock(), machine.MemoryCeiling()
    for start in range(writer.done, spec.total, spec.batch):
        stop = min(start + spec.batch, spec.total)
        rows = spec.encode(start, stop)
        for name in spec.files:
            writer.append(name, np.ascontiguousarray(rows.arrays[name]).data)
        writer.advance(stop, added(writer.details, rows.counts))
        ceiling.enforce()
        if options.on_progress:
            options.on_progress(spec.kind, stop, spec.total)
        if stop < spec.total and options.clock() - saved >= options.save_every_seconds:
            writer.commit(complete=False)
            saved = options.clock()
