"""JSON files whose content has a type: checked when they are read, spelled one way when written.

A type is a frozen dataclass, a ``TypedDict`` or a ``NamedTuple`` of such types and plain values.
Fields that the type does not have are ignored; a field that is missing, or that holds another kind
of value, is an error which names the file and the field.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage import atomic

Value = TypeVar("Value")


def load_typed(path: Path, kind: type[Value]) -> Value:
    """The content of a JSON file; ``DamagedFile`` if it is not of that kind."""
    return as_typed(atomic.load_json(path), kind, str(path))


def as_typed(value: Any, kind: type[Value], where: str) -> Value:
    """A parsed JSON value as ``kind``; ``DamagedFile`` names ``where`` and the field at fault."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise DamagedFile(
            f"{where} does not hold what was written there: {error}; it was changed, damaged, or "
            "written by another version"
        ) from error


def save_typed(path: Path, value: Any) -> None:
    """Replace a JSON file by a typed value, atomically and durably."""
    atomic.save_json(path, as_plain(value))


def as_plain(value: Any) -> Any:
    """A typed value as dicts, lists, strings and numbers."""
    return msgspec.to_builtins(value)
