"""Descriptions of objects: literals, and objects that only hold functions and values. Pure."""

import collections
import functools
import logging
import re
import types
from collections.abc import Mapping
from typing import Any

from pipeline_lib import digest

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
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return _array_text(value)
    if type(value) in (tuple, list):
        return _joined(type(value).__name__, [literal_text(item) for item in value])
    if type(value) in (set, frozenset):
        items = [literal_text(item) for item in value]
        return _joined("set", items if None in items else sorted(map(str, items)))
    if type(value) is dict:
        flat = [literal_text(part) for item in value.items() for part in item]
        return _joined("dict", flat)
    return None


def _array_text(array: Any) -> str | None:
    """The text of a numpy array or scalar; None if it holds Python objects."""
    if type(array).__name__ == "dtype" or array.dtype.hasobject:
        return None
    return f"array {array.dtype.descr} {array.shape} {digest.sha256_bytes(array.tobytes())}"


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
    if isinstance(value, functools._lru_cache_wrapper):
        return {"function": value.__wrapped__, "cached": value.cache_parameters()}
    if isinstance(value, types.MappingProxyType):
        return {"of": dict(value)}
    if isinstance(value, types.GenericAlias) or hasattr(type(value), "__origin__"):
        return {"origin": value.__origin__, "args": value.__args__}
    if isinstance(value, logging.Logger):
        return {"name": value.name}
    return _container(value)


def _container(value: Any) -> Mapping[str, Any] | None:
    if type(value) in (collections.OrderedDict, collections.Counter, collections.defaultdict):
        return {"items": dict(value), "default": getattr(value, "default_factory", None)}
    if type(value) is collections.deque:
        return {"items": list(value), "longest": value.maxlen}
    if type(value) is types.SimpleNamespace:
        return vars(value)
    return None


def builtin_content(value: Any) -> Any:
    """The content of an instance of a subclass of a builtin type; None without one.

    The methods of the builtin type are asked, whatever the subclass overrides.
    """
    for kind, plain in _PLAIN.items():
        if isinstance(value, kind):
            return plain(value)
    return None


_PLAIN: Mapping[type, Any] = {
    int: lambda value: int.__add__(value, 0),
    float: float.hex,
    complex: lambda value: repr(complex.__add__(value, 0)),
    str: lambda value: str.__add__(value, ""),
    bytes: lambda value: bytes.__add__(value, b""),
    tuple: lambda value: [*tuple.__iter__(value)],
    list: lambda value: [*list.__iter__(value)],
    dict: lambda value: [*dict.items(value)],
    set: lambda value: {*set.__iter__(value)},
    frozenset: lambda value: {*frozenset.__iter__(value)},
    BaseException: lambda value: value.args,
}


def is_described(value: Any) -> bool:
    """Whether the ``repr`` of an object describes it completely, as for types."""
    kinds = {(base.__module__, base.__name__) for base in type(value).__mro__}
    is_type = type(value).__module__ == "typing" or isinstance(value, types.GenericAlias)
    return is_type or not kinds.isdisjoint(_DESCRIBED)
