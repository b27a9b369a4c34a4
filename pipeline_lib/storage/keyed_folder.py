"""Folders named by what their content is made from: the key, the record, and what differs.

A key holds digests and numbers, never a path, a time or a host. A changed key is another folder, so
nothing is moved or overwritten and going back costs nothing. ``meta.json`` is the record: the one
commit point of its folder, which says how much of each file is real.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from pipeline_lib import digest
from pipeline_lib.errors import CacheError, DamagedFile
from pipeline_lib.storage import typed_json
from pipeline_lib.storage.segments import FileRecord, check_segments

Key = dict[str, Any]  # the components of a key are as many as there are things to name
"""Component name -> JSON value."""
Details = TypeVar("Details")

META = "meta.json"
RECORD_VERSION = 2
"""Of the form of ``meta.json``. It is part of every key, so another form lies in another folder."""
_DIGITS = 12


@dataclass(frozen=True)
class Record(Generic[Details]):
    """What is committed in a keyed folder.

    ``key``: the whole key. ``done``: units of work (rows, conversations). ``complete``: nothing is
    left to do. ``details``: what this kind of folder records beside.
    """

    key: Key
    done: int
    complete: bool
    files: dict[str, FileRecord]
    details: Details


class Difference(NamedTuple):
    """A component that differs; None stands for one that a key does not have."""

    component: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.component}: {_short(self.old)} -> {_short(self.new)}"


class KeyedFolder:
    """``<root>/<kind>-<first 12 digits of the key's SHA-256>``; it need not be there."""

    def __init__(self, root: Path, kind: str, key: Key) -> None:
        self.root, self.kind = root, kind
        self.key = {"record_version": RECORD_VERSION, **key}
        self.path = root / f"{kind}-{digest.of_json(self.key)[:_DIGITS]}"

    @property
    def remedy(self) -> str:
        """The line that removes the folder, which the next run then makes anew."""
        line = f"import shutil; shutil.rmtree({str(self.path)!r})"
        return f'remove the folder and run again, it is made anew: python -c "{line}"'

    def load(self, details: type[Details]) -> Record[Details] | None:
        """The committed record; None if nothing was ever committed there.

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
        """``CacheError`` unless all files are as recorded: in size and, if ``full``, in content.

        Beyond the recorded bytes an unfinished folder may hold more, which is no part of it.
        """
        exact = record.complete
        for name, file in record.files.items():
            try:
                check_segments(self.path / name, file, self.remedy, full=full, exact=exact)
            except DamagedFile as error:
                raise CacheError(str(error)) from error


def differences(old: Key, new: Key) -> list[Difference]:
    """The components that differ, in the order of the new key."""
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
