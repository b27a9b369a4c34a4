"""Token caches: keyed folders whose files grow together, one write batch at a time."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest, machine
from pipeline_lib.errors import EncoderMismatch
from pipeline_lib.storage import atomic, typed_json
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.growing_folder import GrowingFolder
from pipeline_lib.storage.keyed_folder import Key, KeyedFolder, Record
from pipeline_lib.storage.stored_folders import explain
from pipeline_lib.token_caches.counts import Counts, added

MISMATCH = "encoder_mismatch.txt"
"""The file in the folder of a cache for which the fast encoder was found wrong."""
_log = logging.getLogger(__name__)


class CacheRows(NamedTuple):
    """The rows of one write batch: file name -> array, and the counts for each source."""

    arrays: Mapping[str, NDArray[Any]]
    counts: Counts


@dataclass(frozen=True)
class CacheSpec:
    """How to build a cache.

    ``kind`` and ``key`` decide its folder. ``files``: the names of its files. ``total``: the number
    of conversations. ``batch``: conversations in one write batch. ``encode(start, stop, held)``:
    gives the rows of the conversations in this range; ``held``: the bytes that each file has before
    them. ``use_reference``: makes ``encode`` use the reference encoder from then on; called when
    the fast one was found wrong.
    """

    kind: str
    key: Key
    files: Sequence[str]
    total: int
    batch: int
    encode: Callable[[int, int, Mapping[str, int]], CacheRows]
    use_reference: Callable[[], None]


@dataclass(frozen=True)
class Cache:
    """A complete cache: its folder, its record, and the reason why it was used or built."""

    folder: Path
    record: Record[Counts]
    explanation: str

    @property
    def counts(self) -> Counts:
        """The counts of the build, for each source."""
        return self.record.details

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 over the content of all files."""
        return digest.of_json(typed_json.as_plain(self.record.files))

    def size(self, name: str) -> int:
        """Committed bytes of a file; 0 for a file without any."""
        return self.record.files[name].size if name in self.record.files else 0

    def path(self, name: str) -> Path:
        """The path of a file."""
        return self.folder / name


def open_or_build(options: CacheOptions, spec: CacheSpec) -> Cache:
    """The cache of a specification: a complete one is used, an unfinished one is continued.

    Without one, it is built. ``CacheError`` if a file differs from its record, ``Locked`` if
    another process builds the same cache.
    """
    folder = KeyedFolder(options.root, spec.kind, spec.key)
    why, record = explain(folder), folder.load(Counts)
    if record is None or not record.complete:
        _log.info("%s", why)
        record = _build(folder, spec, options)
    folder.check(record, full=options.full)
    if why.endswith("used as it is"):
        _log.info("%s", why)  # true only after the check
    return Cache(folder.path, record, why)


def _build(folder: KeyedFolder, spec: CacheSpec, options: CacheOptions) -> Record[Counts]:
    """Build with the fast encoder, or, once that was found wrong in this cache, all of it with the
    reference: rows that are written may be wrong, too."""
    if (folder.path / MISMATCH).exists():
        spec.use_reference()
        return _built(folder, spec, options)
    try:
        return _built(folder, spec, options)
    except EncoderMismatch as error:
        _log.warning(
            "%s: %s; the cache is emptied and built again by the reference encoder, which is "
            "much slower", folder.path.name, error,
        )  # fmt: skip
        spec.use_reference()
        return _built(folder, spec, options, wrong=str(error))


def _built(
    folder: KeyedFolder, spec: CacheSpec, options: CacheOptions, wrong: str = ""
) -> Record[Counts]:
    """Encode the missing rows; commit by the clock, at the end, and on an interrupt.

    ``wrong``: what was found wrong with the rows that are there. They are removed before that is
    written down, so that a crash in between leaves no wrong row behind.
    """
    name = folder.path.name
    with GrowingFolder(folder, Counts, {}, keep=(MISMATCH,)) as writer:
        if wrong and writer.record is not None:
            writer.start_over()
        if wrong:
            atomic.replace_bytes(folder.path / MISMATCH, wrong.encode())
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
        rows = spec.encode(start, stop, {name: writer.size(name) for name in spec.files})
        for name in spec.files:
            writer.append(name, np.ascontiguousarray(rows.arrays[name]).data)
        writer.advance(stop, added(writer.details, rows.counts))
        ceiling.enforce()
        if options.on_progress:
            options.on_progress(spec.kind, stop, spec.total)
        if stop < spec.total and options.clock() - saved >= options.save_every_seconds:
            writer.commit(complete=False)
            saved = options.clock()
