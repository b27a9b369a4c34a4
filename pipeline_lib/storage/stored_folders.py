"""The keyed folders below a root: find, explain, list and remove them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage import atomic, folders, typed_json
from pipeline_lib.storage.keyed_folder import META, Key, KeyedFolder, Record, differences
from pipeline_lib.storage.lock import FolderLock
from pipeline_lib.table import Table

UNREADABLE = "damaged, or of another version"


class Stored(NamedTuple):
    """A keyed folder on disk and its record; None if the record can not be read."""

    path: Path
    record: Record[Any] | None

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.path.iterdir() if path.is_file())

    @property
    def complete(self) -> bool:
        """Whether all work is done."""
        return self.record is not None and self.record.complete

    @property
    def state(self) -> str:
        """The state in words, for a table."""
        if self.record is None:
            return UNREADABLE
        return "complete" if self.record.complete else "unfinished"


def stored(root: Path) -> Iterator[Stored]:
    """The folders below ``root`` that hold a record, sorted by name."""
    for path in sorted(root.glob(f"*-{'[0-9a-f]' * 12}/{META}")):
        yield Stored(path.parent, _read(path))


def _read(path: Path) -> Record[Any] | None:
    try:
        return typed_json.load_typed(path, Record[Any])
    except (DamagedFile, FileNotFoundError):  # another process may be removing it
        return None


def _of_kind(root: Path, kind: str) -> Iterator[tuple[Path, Record[Any]]]:
    for path, record in stored(root):
        if path.name.rpartition("-")[0] == kind and record is not None:
            yield path, record


def explain(folder: KeyedFolder) -> str:
    """One line that says why the content of a keyed folder is used, continued or built."""
    record, name = folder.load(Any), folder.path.name
    if record is not None and record.complete:
        return f"{name}: complete, used as it is"
    if record is not None:
        return f"{name}: unfinished, {record.done:,} done"
    others = [
        (path, differences(other.key, folder.key))
        for path, other in _of_kind(folder.root, folder.kind)
    ]
    if not others:
        return f"{name}: built, there is no other {folder.kind} cache"
    nearest, differ = min(others, key=lambda other: (len(other[1]), other[0].name))
    return f"{name}: built, because {nearest.name} has another {'; '.join(map(str, differ))}"


def newest(root: Path, kind: str, known: Key) -> Stored | None:
    """The newest folder of a kind whose key has all ``known`` components; None without one."""
    fitting = [
        Stored(path, record)
        for path, record in _of_kind(root, kind)
        if all(record.key.get(name) == value for name, value in known.items())
    ]
    return max(fitting, key=lambda s: (s.path / META).stat().st_mtime_ns, default=None)


def stored_caches(root: Path) -> Table:
    """A table of the caches below a folder.

    Columns: ``cache`` (folder name), ``bytes`` on disk, ``state``.
    """
    rows = tuple((found.path.name, found.size, found.state) for found in stored(root))
    return Table(("cache", "bytes", "state"), rows)


def prune(root: Path, keep: Iterable[Path]) -> Table:
    """Remove every cache below ``root`` except the folders in ``keep`` (compared by name).

    Returns a table of the removed caches: ``removed cache`` (folder name), ``bytes``, ``state``.
    The record is removed first, so an interrupted removal leaves nothing that looks like a cache.
    ``Locked`` if another process is building one of them.
    """
    kept = {path.name for path in keep}
    removed = [found for found in stored(root) if found.path.name not in kept]
    rows = tuple((found.path.name, found.size, found.state) for found in removed)
    for path, _ in removed:
        with FolderLock(path / "lock"):
            atomic.remove(path / META)
            folders.sync_folder(path)
            folders.remove_tree(path)
    return Table(("removed cache", "bytes", "state"), rows)
