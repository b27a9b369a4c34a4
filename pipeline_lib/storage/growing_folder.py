"""The writer of a keyed folder; it follows the commit rule of ``atomic``.

A commit fsyncs the appended data, syncs the names in the folder, and then replaces ``meta.json``.
When the folder is opened again, files are cut back to the last commit, so bytes that no record
counts do not exist.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Generic, NamedTuple

from pipeline_lib.errors import CacheError, DamagedFile, PipelineError
from pipeline_lib.storage import atomic, folders, typed_json
from pipeline_lib.storage.keyed_folder import META, Details, KeyedFolder, Record
from pipeline_lib.storage.lock import FolderLock
from pipeline_lib.storage.segments import (
    FileRecord,
    SegmentedFile,
    check_segments,
    write_segmented,
)
from pipeline_lib.storage.system_calls import Buffer

LOCK = "lock"


class _State(NamedTuple, Generic[Details]):
    """A state that may be committed; it is assigned in one step, so no interrupt can split it.

    ``dropped``: files that earlier states had.
    """

    done: int
    files: dict[str, FileRecord]
    details: Details
    dropped: frozenset[str] = frozenset()


class GrowingFolder(Generic[Details]):
    """Context manager that locks a keyed folder and adds data to it.

    ``record`` is the last commit, None before the first. ``append`` and ``write`` add data,
    ``advance`` includes it in the next commit, and ``commit`` makes it durable. When the folder is
    opened, files that the record does not name are removed. ``Locked`` if another process writes to
    the folder, ``CacheError`` if a file differs from its record.
    """

    record: Record[Details] | None
    sure: bool
    """False after a call failed that adds data or makes it durable. The system reports such a
    failure once, and the next fsync succeeds without the data, so nothing may be committed then."""

    def __init__(
        self, folder: KeyedFolder, kind: type[Details], empty: Details, keep: Collection[str] = ()
    ) -> None:
        """``kind``: the type of the details. ``empty``: the details of an empty folder.

        ``keep``: names of files that are not in the record and stay.
        """
        self.folder, self._kind, self._empty, self._keep = folder, kind, empty, keep
        self._growing: dict[str, SegmentedFile] = {}
        self._whole: dict[str, FileRecord] = {}
        self.sure = True

    def __enter__(self) -> "GrowingFolder[Details]":
        folders.make_folder(self.folder.path)
        self._lock = FolderLock(self.folder.path / LOCK)
        self._lock.__enter__()
        try:
            self._open()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _open(self) -> None:
        self.record = record = self.folder.load(self._kind)
        self._state = _State(0, {}, self._empty)
        if record is not None:
            self.folder.check(record, full=False)
            self._state = _State(record.done, record.files, record.details)
        known = {*self._state.files, *self._keep, META, LOCK}
        for path in self.folder.path.iterdir():
            if path.name not in known and path.is_file():
                atomic.remove(path)

    @property
    def done(self) -> int:
        """Finished units that the next commit will record."""
        return self._state.done

    @property
    def details(self) -> Details:
        """The details that the next commit will record."""
        return self._state.details

    def append(self, name: str, data: Buffer) -> None:
        """Add bytes to the end of a file; the first call cuts it back to its committed size."""
        if name not in self._growing:
            self._growing[name] = self._reopened(name)
        with self._unsure_after_a_failure():
            self._growing[name].append(data)

    def size(self, name: str) -> int:
        """Bytes of a file that grows: those of the last commit, and what was added since."""
        if name in self._growing:
            return self._growing[name].size
        return self._state.files.get(name, FileRecord()).size

    @contextlib.contextmanager
    def _unsure_after_a_failure(self) -> Iterator[None]:
        try:
            yield
        except (OSError, PipelineError):
            self.sure = False
            raise

    def _reopened(self, name: str) -> SegmentedFile:
        try:
            return SegmentedFile(self.folder.path / name, self._state.files.get(name, FileRecord()))
        except DamagedFile as error:
            raise CacheError(f"{error}; {self.folder.remedy}") from error

    def write(self, name: str, data: Buffer) -> None:
        """Write a whole file under a name that no commit has used."""
        with self._unsure_after_a_failure():
            self._whole[name] = write_segmented(self.folder.path / name, data)

    def checked(self, name: str) -> Path:
        """The path of a committed whole file, after a comparison of all its bytes."""
        path = self.folder.path / name
        try:
            check_segments(path, self._state.files[name], self.folder.remedy, full=True)
        except DamagedFile as error:
            raise CacheError(str(error)) from error
        return path

    def discard(self) -> None:
        """Forget the files that were written after the last ``advance``."""
        self._whole = {}

    def advance(self, done: int, details: Details, *, drop: Iterable[str] = ()) -> None:
        """Include everything appended and written so far in the next commit, as ``done`` units.

        ``drop``: names of earlier files, which the next commit removes.
        """
        growing = {name: file.record() for name, file in self._growing.items()}
        files, dropped = {**self._state.files, **self._whole, **growing}, frozenset(drop)
        kept = {name: file for name, file in files.items() if name not in dropped}
        self._state = _State(done, kept, details, self._state.dropped | dropped)
        self._whole = {}

    def commit(self, *, complete: bool) -> Record[Details]:
        """Make the state of the last ``advance`` durable; an equal commit writes nothing."""
        if complete and self._state.dropped:
            self.commit(complete=False)  # a complete folder holds no file of an earlier state
        state = self._state
        record = Record(self.folder.key, state.done, complete, state.files, state.details)
        if record != self.record:
            with self._unsure_after_a_failure():
                self._make_durable(record)
        for name in state.dropped:
            atomic.remove(self.folder.path / name)
        self._state = state._replace(dropped=frozenset())
        return record

    def _make_durable(self, record: Record[Details]) -> None:
        for file in self._growing.values():
            file.sync()
        folders.sync_folder(self.folder.path)
        typed_json.save_typed(self.folder.path / META, record)
        self.record = record

    def start_over(self) -> None:
        """Remove everything committed; a reader that still maps one of the files can go on."""
        named = self._state.files
        self.record, self._state, self._whole = None, _State(0, {}, self._empty), {}
        atomic.remove(self.folder.path / META)
        folders.sync_folder(self.folder.path)
        for name in named:
            atomic.remove(self.folder.path / name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._growing.values():
            file.close()
        self._lock.__exit__(kind, error, trace)
