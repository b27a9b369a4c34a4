"""JSON files whose content has a type, which is checked when a file is read.

A type is a frozen dataclass, a ``TypedDict`` or a ``NamedTuple`` of such types and plain values.
Unknown fields are ignored. A missing field, or a field with another kind of value, is an error that
names the file and the field.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage import atomic

Value = TypeVar("Value")


def load_typed(path: Path, kind: type[Value]) -> Value:
    """The content of a JSON file as type ``kind``; ``DamagedFile`` if it does not fit."""
    return as_typed(atomic.load_json(path), kind, str(path))


def as_typed(value: Any, kind: type[Value], where: str) -> Value:
    """A parsed JSON value as type ``kind``; ``DamagedFile`` names ``where`` and the wrong field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise DamagedFile(
            f"{where} does not hold the expected fields: {error}; it was changed, damaged, or "
            "written by another version"
        ) from error


def save_typed(path: Path, value: Any) -> None:
    """Write a typed value as a JSON file, atomically and durably."""
    atomic.save_json(path, as_plain(value))


def as_plain(value: Any) -> Any:
    """A typed value as dicts, lists, strings and numbers."""
    return msgspec.to_builtins(value)
