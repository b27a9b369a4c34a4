"""Values of JSON inside turns: arguments of calls and schemas of tools. Pure.

The order of keys and the numbers stay as they are, because templates print them. What JSON can not
hold is a ``Reject``.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from pipeline_lib.chat.reject import Reject


def as_json(value: Any) -> bytes:
    """A value as compact JSON, in UTF-8, with the order of its keys."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
    ).encode()


def from_json(text: str | bytes, otherwise: str) -> Any:
    """The value that a text holds as JSON, or as JSON in JSON; ``Reject`` with ``otherwise``."""
    value: Any = text
    while isinstance(value, str | bytes):
        try:
            value = json.loads(value)
        except ValueError:
            raise Reject(otherwise) from None
    return value


def without_nulls(value: Any) -> Any:
    """The same value without the keys that hold null, in every object of it.

    A columnar file gives every object all keys of all objects, filled with nulls.
    """
    if isinstance(value, Mapping):
        return {key: without_nulls(v) for key, v in value.items() if v is not None}
    return [*map(without_nulls, _items(value))] if _is_list(value) else value


def has_nulls(value: Any) -> bool:
    """Whether ``without_nulls`` would leave something out."""
    if isinstance(value, Mapping):
        return any(v is None or has_nulls(v) for v in value.values())
    return any(map(has_nulls, _items(value))) if _is_list(value) else False


def checked_json(value: Any, what: str) -> Any:
    """The value in dicts, lists, text and numbers; ``Reject`` names ``what`` is no JSON."""
    if getattr(value, "shape", None) == ():
        value = value.item()  # a number of numpy
    if isinstance(value, str):
        return checked_text(value, what)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        return {_key(key, what): checked_json(v, what) for key, v in value.items()}
    if _is_list(value):
        return [checked_json(v, what) for v in _items(value)]
    kind = str(value) if isinstance(value, float) else type(value).__name__
    raise Reject(f"{what} is not JSON ({kind})")


def checked_text(value: str, what: str) -> str:
    """The text; ``Reject`` if it is not valid Unicode."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Reject(f"{what} is not valid Unicode") from None
    return str(value)


def _key(key: object, what: str) -> str:
    if not isinstance(key, str):
        raise Reject(f"{what} is not JSON (a key is {type(key).__name__})")
    return checked_text(key, what)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or getattr(value, "shape", ()) != ()


def _items(value: Any) -> list[Any]:
    return list(value)
