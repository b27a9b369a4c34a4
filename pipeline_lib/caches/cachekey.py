"""What a cache is made from, as named components: the key, its folder, and what differs.

A key holds digests and numbers, never a path, a time or a host. A changed key is another
folder, so nothing is moved or overwritten and going back costs nothing.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pipeline_lib import digest
from pipeline_lib.durable import atomic, folders
from pipeline_lib.errors import CacheError, DamagedFile
from pipeline_lib.lock import FolderLock
from pipeline_lib.table import Table

Key = dict[str, Any]
"""Component name -> JSON value."""

META = "meta.json"
_DIGITS = 12


class Difference(NamedTuple):
    """A component that differs; None stands for one that a key does not have."""

    component: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.component}: {_short(self.old)} -> {_short(self.new)}"


class Record(NamedTuple):
    """A cache folder and its committed record."""

    folder: Path
    meta: dict[str, Any]

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""
        return bool(self.meta.get("complete"))

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return _bytes(self.folder)


def cache_folder(root: Path, kind: str, key: Key) -> Path:
    """Where the cache of this kind and key lies: ``<root>/<kind>-<first 12 digits of key>``."""
    return root / f"{kind}-{digest.of_json(key)[:_DIGITS]}"


def differences(old: Key, new: Key) -> list[Difference]:
    """The components that differ, in the order of the new key."""
    names = [*new, *(name for name in old if name not in new)]
    return [
        Difference(name, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    ]


def remedy(folder: Path) -> str:
    """The line that removes one cache, which is then made anew by the next run."""
    line = f"import shutil; shutil.rmtree({str(folder)!r})"
    return f'remove the folder and run again, it is made anew: python -c "{line}"'


def load_meta(folder: Path, key: Key) -> dict[str, Any] | None:
    """The committed record of a cache folder; None if nothing was ever committed there.

    ``DamagedFile`` if it can not be read, ``CacheError`` if it belongs to another key.
    """
    path = folder / META
    if not path.exists():
        return None
    meta = _read(path)
    if meta["key"] != key:
        found = "; ".join(map(str, differences(meta["key"], key)))
        raise CacheError(f"{folder} holds the record of another key ({found}); {remedy(folder)}")
    return meta


def _read(path: Path) -> dict[str, Any]:
    try:
        meta = atomic.load_json(path)
    except DamagedFile as error:
        raise DamagedFile(f"{path} is damaged; {remedy(path.parent)}") from error
    if not isinstance(meta, dict) or not isinstance(meta.get("key"), dict):
        raise DamagedFile(f"{path} is not the record of a cache; {remedy(path.parent)}")
    return meta


def explain(root: Path, kind: str, key: Key) -> str:
    """Why the cache of this kind and key is used, continued or built, in one line."""
    folder = cache_folder(root, kind, key)
    meta = load_meta(folder, key)
    if meta is not None and meta.get("complete"):
        return f"{folder.name}: complete, used as it is"
    if meta is not None:
        return f"{folder.name}: unfinished, {meta.get('done', 0):,} conversations are committed"
    others = [(path, differences(other, key)) for path, other in _keys(root, kind)]
    if not others:
        return f"{folder.name}: built, there is no other {kind} cache"
    nearest, differ = min(others, key=lambda other: (len(other[1]), other[0].name))
    return f"{folder.name}: built, because {nearest.name} has another " + "; ".join(
        map(str, differ)
    )


def newest(root: Path, kind: str, known: Key) -> Record | None:
    """Of the caches whose key agrees in all ``known`` components the one that was written last."""
    fitting = [
        Record(folder, _read(folder / META))
        for folder, key in _keys(root, kind)
        if all(key.get(name) == value for name, value in known.items())
    ]
    return max(fitting, key=lambda r: (r.folder / META).stat().st_mtime_ns, default=None)


def _keys(root: Path, kind: str) -> Iterator[tuple[Path, Key]]:
    for folder in _folders(root):
        if folder.name.rpartition("-")[0] == kind and _state(folder) != "damaged":
            yield folder, _read(folder / META)["key"]


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path.parent for path in root.glob(f"*-{'[0-9a-f]' * _DIGITS}/{META}"))


def stored_caches(root: Path) -> Table:
    """The caches below a folder: name, bytes on disk, complete or not."""
    rows = [(folder.name, _bytes(folder), _state(folder)) for folder in _folders(root)]
    return Table(("cache", "bytes", "state"), tuple(rows))


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def _state(folder: Path) -> str:
    try:
        return "complete" if _read(folder / META).get("complete") else "unfinished"
    except DamagedFile:
        return "damaged"


def prune(root: Path, keep: Iterable[Path]) -> Table:
    """Remove every cache below ``root`` that is not in ``keep``; the table says what went.

    The record goes first, so an interrupted removal leaves nothing that looks like a cache.
    ``Locked`` if another process is building one of them.
    """
    kept = {path.name for path in keep}
    gone = [folder for folder in _folders(root) if folder.name not in kept]
    rows = [(folder.name, _bytes(folder), _state(folder)) for folder in gone]
    for folder in gone:
        with FolderLock(folder / "lock"):
            atomic.remove(folder / META)
            folders.sync_folder(folder)
            folders.remove_tree(folder)
    return Table(("removed cache", "bytes", "state"), tuple(rows))


def _short(value: Any) -> str:
    text = str(value)
    is_digest = isinstance(value, str) and len(value) == 64
    return text[:_DIGITS] if is_digest else text if len(text) <= 60 else f"{text[:57]}..."
