"""Watches the durable calls of some work, and says where a power cut would break a promise.

After a power cut a file has the content of its last fsync, and a folder the names of its last
fsync. The promises are the records: JSON files that name other files. Nothing here knows what a
record means: every string in it that is a name or path of a file counts, and the nearest is meant.

    * Content gets its final name (``replace``, ``link``, ``rename_new``, ``exchange``) only after
      an fsync of it, a folder only after an fsync of everything in it.
    * A record gets its name only after all that it names is durable: content, and every name on the
      way to it.
    * Nothing is removed that a record on the medium still names, and of two names for one content
      none before the other is on the medium.
    * What got its name is on the medium before anything else is changed.
    * When the work is over, every record is on the medium.

A record in a staging folder's payload does not count before the folder has its own name, and none
counts in a folder that is marked as being removed.
"""

import contextlib
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from crashes import CALLS

from pipeline_lib.corpus.layout import DISCARDED
from pipeline_lib.storage import system_calls

_UNPUBLISHED = ("payload", "replaced")
"""Folders in a staging folder that were not published yet, or will be removed."""


class _Stamp(NamedTuple):
    size: int
    changed: int


class Medium:
    """What is on the medium, by inode: stamps of file contents and names in folders.

    All that is below ``root`` at the start is there already. ``faults``: the broken promises.
    ``syncs``: number of fsyncs so far; the one with number ``ignored`` has no effect.
    """

    def __init__(self, root: Path, ignored: int = -1) -> None:
        self.root, self.ignored = root, ignored
        self.faults, self.syncs = list[str](), 0
        self._contents: dict[int, _Stamp] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._given: list[tuple[Path, Path]] = []  # old and new names since the last other call
        self._removed = 0
        self._named: dict[int, frozenset[str]] = {}  # inode of a record -> strings in it
        for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
            self._names[_inode(folder)] = _listing(folder)
        for path in self._files(root):
            self._contents[_inode(path)] = _stamp(path.stat())
            if path.suffix == ".json":
                self._named[_inode(path)] = _strings_of(path)

    @staticmethod
    def _files(folder: Path) -> list[Path]:
        return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]

    def before(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Judge a call, and note what it changes; ``fsync`` alone makes something durable."""
        if name == "fsync":
            self._sync(arguments[0])
            return
        self._judge_new_names(name)
        match name:
            case "write":  # a cut needs no fsync: what was synced is still there
                self._contents.pop(os.fstat(arguments[0]).st_ino, None)
            case "replace" | "link" | "rename_new" | "exchange":
                source, target = Path(arguments[0]), Path(arguments[1])
                if source.exists():
                    self._publish(name, source, target)
            case "unlink" | "rmtree":
                self._remove(Path(arguments[0]))

    def after(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Take note of the length that a file was cut to."""
        if name == "ftruncate":
            found = os.fstat(arguments[0])
            if found.st_ino in self._contents:
                self._contents[found.st_ino] = _stamp(found)

    def _judge_new_names(self, call: str) -> None:
        for old, new in self._given:
            on_medium = self._has_name(new, self.root)
            self._require(on_medium, f"{call} before the new name of {new.name} was synced")
            left = self._names.get(_inode(old.parent), {}).get(old.name) == _inode(new)
            self._require(not left, f"{call} before the old name of {new.name} was gone")
        self._given = []

    def _sync(self, fd: int) -> None:
        self.syncs += 1
        if self.syncs == self.ignored:
            return
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            with os.scandir(fd) as entries:
                self._names[found.st_ino] = {entry.name: entry.inode() for entry in entries}
        else:
            self._contents[found.st_ino] = _stamp(found)

    def _publish(self, call: str, source: Path, target: Path) -> None:
        below = self._files(source) if source.is_dir() else [source]
        where = f"{call} to {target.relative_to(self.root)}"
        for path in below:
            self._require(self._has_content(path), f"{where}: content of {path.name} not synced")
            if path != source:
                on_medium = self._has_name(path, upto=source)
                self._require(on_medium, f"{where}: name of {path.name} not synced")
        if target.suffix == ".json" and target.name != source.name:
            self._named[_inode(source)] = _strings_of(source)
            for paths in self._referenced(target, self._named[_inode(source)]):
                for path in paths:
                    self._require_durable(path, where)
        if call != "link":
            self._given.append((source, target))
        if call == "replace" and target.exists():
            self._forget(target)

    def _remove(self, path: Path) -> None:
        if not os.path.lexists(path):
            return
        below = list(path.rglob("*")) if path.is_dir() else []
        gone = {path, *below}
        marked = {file.parent for file in gone if file.name == DISCARDED}
        for record, strings in self._records_on_medium():
            if marked & set((self.root / record).parents):
                self.faults.append(f"the mark is removed, but {record} is on the medium")
            elif not self._is_marked(record):
                for files in self._referenced(self.root / record, strings):
                    if files <= gone:
                        name = min(files).name
                        self.faults.append(f"{name} removed, but {record} on the medium names it")
        for file in gone:
            self._judge_last_name(file)
            self._forget(file)

    def _judge_last_name(self, path: Path) -> None:
        """Of two names for one content, one may go only after the other is on the medium."""
        if path.is_file() and path.stat().st_nlink > 1:
            here = path.relative_to(self.root)
            names = [
                p
                for p, inode in self._walk(Path(), _inode(self.root))
                if p != here and inode == _inode(path)
            ]
            self._require(bool(names), f"{here} removed before its other name was synced")

    def _forget(self, path: Path) -> None:
        """What is removed gets a number of its own: the next file may get the same inode."""
        inode, found = _inode(path), os.lstat(path)
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            return
        self._removed += 1
        for known in (self._contents, self._named, self._names):
            if inode in known:
                known[-self._removed] = known.pop(inode)  # type: ignore[attr-defined]
        for names in self._names.values():
            names.update({n: -self._removed for n, there in names.items() if there == inode})

    def finish(self) -> None:
        """Judge the end of the work."""
        self._judge_new_names("the end")
        for path in self._files(self.root):
            record = path.relative_to(self.root)
            if path.suffix == ".json" and not _is_pending(record) and not self._is_marked(record):
                self._require_durable(path, "at the end")

    def _require(self, holds: bool, fault: str) -> None:
        if not holds:
            self.faults.append(fault)

    def _require_durable(self, path: Path, where: str) -> None:
        self._require(self._has_content(path), f"{where}: content of {path.name} not synced")
        self._require(self._has_name(path, self.root), f"{where}: name of {path.name} not synced")

    def _has_content(self, path: Path) -> bool:
        return self._contents.get(_inode(path)) == _stamp(path.stat())

    def _has_name(self, path: Path, upto: Path) -> bool:
        way = [path, *path.parents[: len(path.relative_to(upto).parts) - 1]]
        return all(
            self._names.get(_inode(step.parent), {}).get(step.name) == _inode(step) for step in way
        )

    def _referenced(self, record: Path, strings: frozenset[str]) -> list[set[Path]]:
        """For each string of a record that is the end of a file's path: the files nearest to it."""
        found: dict[str, list[Path]] = {}
        for path in self._files(self.root):
            parts = path.relative_to(self.root).parts
            for tail in {"/".join(parts[place:]) for place in range(len(parts))} & strings:
                found.setdefault(tail, []).append(path)
        nearest = [max(_together(path, record) for path in paths) for paths in found.values()]
        return [
            {path for path in paths if _together(path, record) == most}
            for paths, most in zip(found.values(), nearest, strict=True)
        ]

    def _records_on_medium(self) -> Iterator[tuple[Path, frozenset[str]]]:
        for path, inode in self._walk(Path(), _inode(self.root)):
            if inode in self._named and inode in self._contents and not _is_pending(path):
                yield path, self._named[inode]

    def _walk(self, folder: Path, inode: int) -> Iterator[tuple[Path, int]]:
        for name, inner in self._names.get(inode, {}).items():
            yield folder / name, inner
            yield from self._walk(folder / name, inner)

    def _is_marked(self, record: Path) -> bool:
        """Whether the medium has a folder of the record marked as being removed."""
        return any(self._on_medium(folder / DISCARDED) for folder in record.parents)

    def _on_medium(self, path: Path) -> bool:
        inode = _inode(self.root)
        for part in path.parts:
            if part not in self._names.get(inode, {}):
                return False
            inode = self._names[inode][part]
        return True


def _is_pending(record: Path) -> bool:
    """Whether a record is in a folder that was not published yet, or was replaced."""
    return any(
        folder.name in _UNPUBLISHED and folder.parent.suffix == ".incomplete"
        for folder in record.parents
    )


def _together(one: Path, other: Path) -> int:
    """Number of parents that two paths share."""
    return len(set(one.parents) & set(other.parents))


def _inode(path: Path) -> int:
    return os.lstat(path).st_ino


def _stamp(found: os.stat_result) -> _Stamp:
    return _Stamp(found.st_size, found.st_mtime_ns)


def _listing(folder: Path) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}


def _strings_of(path: Path) -> frozenset[str]:
    try:
        return frozenset(_strings(json.loads(path.read_bytes())))
    except ValueError:
        return frozenset()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


@contextlib.contextmanager
def medium(root: Path, ignored: int = -1) -> Iterator[Medium]:
    """Inside the block all durable calls below ``root`` are judged; no fsync is executed."""
    watched, real = Medium(root, ignored), dict(vars(system_calls.system))
    lock = threading.Lock()

    def wrapped(name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with lock:
                watched.before(name, arguments)
                result = None if name == "fsync" else real[name](*arguments)
                watched.after(name, arguments)
                return result

        return call

    for name in CALLS:
        setattr(system_calls.system, name, wrapped(name))
    try:
        yield watched
    finally:
        vars(system_calls.system).update(real)


def broken_promises(root: Path, work: Callable[[], object], ignored: int = -1) -> list[str]:
    """What a power cut during or after the work would break; see the head of this module."""
    with medium(root, ignored) as watched:
        work()
        watched.finish()
    if watched.syncs == 0:
        raise ValueError("the work made nothing durable")
    return watched.faults


def unneeded_syncs(prepare: Callable[[int], Path], work: Callable[[Path], object]) -> list[int]:
    """The numbers of those fsyncs of some work without which no promise would be broken.

    ``prepare`` makes a new root with the state before the work, for each number.
    """
    root = prepare(0)
    with medium(root) as watched:
        work(root)
    unneeded = []
    for number in range(1, watched.syncs + 1):
        root = prepare(number)
        if not broken_promises(root, lambda root=root: work(root), ignored=number):
            unneeded.append(number)
    return unneeded
