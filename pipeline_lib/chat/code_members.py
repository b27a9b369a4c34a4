"""What functions, classes and instances hold that decides how they behave."""

import dataclasses
import functools
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

from pipeline_lib.chat.code_origin import installed_version, native_version
from pipeline_lib.chat.code_values import literal_text

_NOT_BEHAVIOUR = {
    *("__module__", "__qualname__", "__doc__", "__firstlineno__", "__annotations__"),
    *("__annotate__", "__annotate_func__", "__annotations_cache__", "__static_attributes__"),
}
"""Attributes of a class that do not decide how it behaves."""
_MADE_BY = {
    *(object, int, float, complex, str, bytes, tuple, list, dict, set, frozenset),
    *(BaseException, Exception),
}
"""Builtin types of which an instance has no content but that which ``builtin_content`` gives."""
_MADE_WHILE_RUNNING = 1 << 9
"""``Py_TPFLAGS_HEAPTYPE``."""


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned to the variable yet
        return None


def held_by(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The enclosed variables of a function, and its attributes.

    A decorator stores the wrapped function in one of them.
    """
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    yield from ((name, _content(cell)) for name, cell in cells)
    yield from vars(function).items()


def holds_code(value: Any) -> bool:
    """Whether a value is, or may hold, code of the user."""
    code = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)
    if isinstance(value, (*code, type)) or type(value) in (tuple, list):
        return True
    return installed_version(type(value).__module__) is None


def attributes_of(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes in an object's slots and dict, without what a property keeps there."""
    kept = (functools.cached_property,)
    for base in type(value).__mro__:
        for name, slot in vars(base).items():
            if isinstance(slot, types.MemberDescriptorType) and hasattr(value, slot.__name__):
                yield name, slot.__get__(value)
    for name, held in getattr(value, "__dict__", {}).items():
        if not isinstance(inspect.getattr_static(type(value), name, None), kept):
            yield name, held


def members_of(kind: type) -> dict[str, Any]:
    """The attributes of a class itself; for a dataclass, its fields in place of made methods."""
    held = {n: v for n, v in sorted(vars(kind).items()) if _is_behaviour(n, v)}
    if dataclasses.is_dataclass(kind):
        held = {n: v for n, v in held.items() if not _is_generated(v)}
        held |= {f"field {f.name}": _field(f) for f in dataclasses.fields(kind)}
    return held


def may_hide_state(kind: type) -> bool:
    """Whether the instances of a class are made in C and may hold what Python does not see."""
    made_by = getattr(kind.__new__, "__self__", object)
    return made_by not in _MADE_BY or native_version(kind.__module__) != ""


def home(value: Any) -> str:
    """The name of the module that a module or class is at home in."""
    return str(value.__name__ if isinstance(value, types.ModuleType) else value.__module__)


def full_name(kind: type) -> str:
    """The name of a class with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def is_found(kind: type) -> bool:
    """Whether the module that a class names has it; a class can be made elsewhere."""
    found: Any = sys.modules.get(kind.__module__)
    top = kind.__qualname__.partition(".")[0]
    return found is None or hasattr(found, top) or not kind.__flags__ & _MADE_WHILE_RUNNING


def _is_behaviour(name: str, value: Any) -> bool:
    """Whether an attribute of a class counts; caches of libraries under special names do not."""
    if not (name.startswith("__") and name.endswith("__")):
        return name != "_abc_impl"
    if name in _NOT_BEHAVIOUR or name.startswith("__dataclass_"):
        return False
    known = callable(value) or isinstance(value, staticmethod | classmethod | property)
    return known or type(value) in (dict, tuple, list) or literal_text(value) is not None


def _is_generated(value: Any) -> bool:
    """Whether a value is a method that ``dataclasses`` generated."""
    code = getattr(inspect.unwrap(value) if callable(value) else None, "__code__", None)
    return getattr(code, "co_filename", "") == "<string>"


def _field(field: dataclasses.Field[Any]) -> list[Any]:
    missing = dataclasses.MISSING
    made = [None if held is missing else [held] for held in (field.default, field.default_factory)]
    return [*made, field.init, field.compare, field.hash, field.kw_only]
