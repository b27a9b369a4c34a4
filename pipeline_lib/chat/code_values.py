"""Descriptions of objects: literals, and objects that only hold functions and values. Pure."""

import functools
import logging
import re
import types
from collections.abc import Mapping
from typing import Any

_LITERALS = (bool, int, float, complex, str, bytes, type(None), type(...))
VALUE_MODULES = ("datetime", "decimal", "fractions", "operator", "pathlib", "uuid")
"""Modules whose instances are values: their ``__reduce__`` describes them completely."""
_DESCRIBED = {
    ("pyarrow.lib", "DataType"),
    ("pyarrow.lib", "Schema"),
    ("collections", "_tuplegetter"),
    ("_collections", "_tuplegetter"),
}


def literal_text(value: Any) -> str | None:
    """The text of a literal, also a nested one; None for any other object."""
    if isinstance(value, re.Pattern):
        return f"re {value.pattern!r} {value.flags}"
    if type(value) in _LITERALS:
        return repr(value)
    if type(value) in (tuple, list):
        return _joined(type(value).__name__, [literal_text(item) for item in value])
    if type(value) in (set, frozenset):
        items = [literal_text(item) for item in value]
        return _joined("set", items if None in items else sorted(map(str, items)))
    if type(value) is dict:
        flat = [literal_text(part) for item in value.items() for part in item]
        return _joined("dict", flat)
    return None


def _joined(kind: str, items: list[str | None] | list[str]) -> str | None:
    if any(item is None for item in items):
        return None
    return f"{kind}({', '.join(map(str, items))})"


def parts_held(value: Any) -> Mapping[str, Any] | None:
    """The parts of an object that only holds functions and values; None for any other."""
    if isinstance(value, types.MethodType):
        return {"function": value.__func__, "of": value.__self__}
    if isinstance(value, staticmethod | classmethod):
        return {"function": value.__func__}
    if isinstance(value, property):
        return {"get": value.fget, "set": value.fset, "delete": value.fdel}
    if isinstance(value, functools.cached_property):
        return {"function": value.func}
    if isinstance(value, functools.partial):
        return {"function": value.func, "args": value.args, "named": value.keywords}
    if hasattr(value, "cache_parameters"):
        return {"function": value.__wrapped__, "cached": value.cache_parameters()}
    if isinstance(value, logging.Logger):
        return {"name": value.name}
    return None


def is_described(value: Any) -> bool:
    """Whether the ``repr`` of an object describes it completely, as for types."""
    kinds = {(base.__module__, base.__name__) for base in type(value).__mro__}
    is_type = type(value).__module__ == "typing" or isinstance(value, types.GenericAlias)
    return is_type or not kinds.isdisjoint(_DESCRIBED)
