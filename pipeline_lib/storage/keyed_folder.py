"""Folders named by a key, which lists everything that decides their content.

A key holds digests and numbers, never a path, a time or a host. A changed key names another folder,
so nothing is moved or overwritten, and a return to the old key finds the old folder. ``meta.json``
is the record of a folder and its only commit point: it says how much of each file is committed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from pipeline_lib import digest
from pipeline_lib.errors import CacheError, DamagedFile
from pipeline_lib.storage import typed_json
from pipeline_lib.storage.segments import FileRecord, check_segments

Key = dict[str, Any]  # each kind of folder has components of its own
"""Component name -> JSON value."""
Details = TypeVar("Details")

META = "meta.json"
RECORD_VERSION = 2
"""Version of the form of ``meta.json``. Every key has it, so another form uses another folder."""
_DIGITS = 12


@dataclass(frozen=True)
class Record(Generic[Details]):
    """The committed state of a keyed folder.

    ``key``: the whole key. ``done``: finished units of work (rows, conversations). ``complete``:
    whether all work is done. ``files``: the committed part of each file. ``details``: more fields,
    which depend on the kind of folder.
    """

    key: Key
    done: int
    complete: bool
    files: dict[str, FileRecord]
    details: Details


class Difference(NamedTuple):
    """A component that differs between two keys; None stands for a missing component."""

    component: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.component}: {_short(self.old)} -> {_short(self.new)}"


class KeyedFolder:
    """The folder ``<root>/<kind>-<first 12 digits of the key's SHA-256>``; it may be absent."""

    def __init__(self, root: Path, kind: str, key: Key) -> None:
        self.root, self.kind = root, kind
        self.key = {"record_version": RECORD_VERSION, **key}
        self.path = root / f"{kind}-{digest.of_json(self.key)[:_DIGITS]}"

    @property
    def remedy(self) -> str:
        """The end of an error text: the command that removes the folder, so it is built again."""
        line = f"import shutil; shutil.rmtree({str(self.path)!r})"
        return f'remove the folder, and the next run builds it again: python -c "{line}"'

    def load(self, details: type[Details]) -> Record[Details] | None:
        """The committed record with details of type ``details``; None before the first commit.

        ``CacheError`` if it can not be read or belongs to another key.
        """
        path = self.path / META
        if not path.exists():
            return None
        try:
            record = typed_json.load_typed(path, Record[details])  # type: ignore[valid-type]
        except DamagedFile as error:
            raise CacheError(f"{error}; {self.remedy}") from error
        if record.key != self.key:
            found = "; ".join(map(str, differences(record.key, self.key)))
            raise CacheError(f"{path} is the record of another key ({found}); {self.remedy}")
        return record

    def check(self, record: Record[Any], *, full: bool) -> None:
        """``CacheError`` unless all files match the record: in size and, if ``full``, in content.

        The files of an unfinished folder may be longer than recorded; these bytes do not count.
        """
        exact = record.complete
        for name, file in record.files.items():
            try:
                check_segments(self.path / name, file, self.remedy, full=full, exact=exact)
            except DamagedFile as error:
                raise CacheError(str(error)) from error


def differences(old: Key, new: Key) -> list[Difference]:
    """The components that differ between two keys, in the order of the new key."""
    names = [*new, *(name for name in old if name not in new)]
    return [
        Difference(name, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _short(value: Any) -> str:
    text = str(value)
    is_digest = isinstance(value, str) and len(value) == 64
    return text[:_DIGITS] if is_digest else text if len(text) <= 60 else f"{text[:57]}..."
