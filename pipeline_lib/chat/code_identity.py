"""The identity of a function's behaviour: a walk over the objects in memory that it reaches.

Of each function, these count: instructions, constants, defaults, enclosed variables, and all
objects to which its globals and the attributes of the user's modules lead. Functions and classes
are walked in the same way; values count as they are at that moment. Line numbers, comments and
docstrings do not count. Code of an installed distribution counts by the version of the distribution
(``code_origin``). An object that can not be pinned down is listed by name instead of guessed.
"""

import builtins
import dataclasses
import enum
import importlib
import inspect
import sys
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline_lib import digest
from pipeline_lib.chat.code_names import CodeNames, Import, read_code
from pipeline_lib.chat.code_origin import installed_version
from pipeline_lib.chat.code_values import VALUE_MODULES, is_described, literal_text, parts_held

_UNFORESEEABLE = ("globals", "locals", "vars", "eval", "exec", "__import__", "open", "input", "id")
"""Builtins whose result a walk can not foresee."""
_NOT_BEHAVIOUR = {
    *("__module__", "__qualname__", "__doc__", "__firstlineno__", "__annotations__"),
    *("__annotate__", "__annotate_func__", "__annotations_cache__", "__static_attributes__"),
}
"""Attributes of a class that do not decide how it behaves."""


class CodeIdentity(NamedTuple):
    """The result of a walk.

    ``sha256``: hex digest of everything found. ``unresolved``: the objects that can not be pinned
    down, as paths of names from the root, such as ``"norm/helper/BOX (object)"``. ``functions``:
    the functions reached.
    """

    sha256: str
    unresolved: tuple[str, ...]
    functions: tuple[types.FunctionType, ...]


def code_identity(root: Any) -> CodeIdentity:
    """The identity of a function, or of a tuple of functions and classes."""
    walk = _Walk()
    walk.refer(getattr(root, "__name__", type(root).__name__), root)
    sha256 = digest.of_json([sys.version_info[:2], walk.parts])
    return CodeIdentity(sha256, tuple(walk.unresolved), tuple(walk.functions))


class _Walk:
    """Collects one part for each object, in the order of the walk.

    A part refers to a literal by its text and to any other object by the number of its part, so
    cycles end.
    """

    def __init__(self) -> None:
        self.parts: list[list[Any]] = []
        self.unresolved: list[str] = []
        self.functions: list[types.FunctionType] = []
        self._numbers: dict[Any, int] = {}
        self._kept: list[Any] = []  # kept alive, so that no other object gets their id

    def refer(self, path: str, value: Any, names: frozenset[str] | None = None) -> str | int:
        """The text or number by which a part refers to a value.

        ``names``: for a user's module, the attributes that count; None for all.
        """
        literal = literal_text(value)
        if literal is not None:
            return literal
        seen = (id(value), names if isinstance(value, types.ModuleType) else None)
        if seen not in self._numbers:
            self._kept.append(value)
            number = self._numbers[seen] = len(self.parts)
            self.parts.append([])
            self.parts[number] = self._part(path, value, names)
        return self._numbers[seen]

    def _all(self, path: str, items: Iterable[tuple[str, Any]]) -> list[Any]:
        return [[name, self.refer(f"{path}/{name}", value)] for name, value in items]

    def _list(self, path: str, values: Iterable[Any]) -> list[Any]:
        return [self.refer(path, value) for value in values]

    def _lost(self, path: str, what: str) -> list[Any]:
        self.unresolved.append(f"{path} ({what})")
        return ["unresolved"]

    def _part(self, path: str, value: Any, names: frozenset[str] | None) -> list[Any]:
        if isinstance(value, types.ModuleType):
            return self._module(path, value, names)
        if isinstance(value, type):
            return self._class(path, value)
        if isinstance(value, types.FunctionType):
            return self._function(path, value)
        if isinstance(value, types.BuiltinFunctionType):
            return self._native(path, value)
        if type(value) in (tuple, list):
            return [type(value).__name__, *self._list(path, value)]
        if type(value) is dict:
            return ["dict", *(self._list(path, item) for item in value.items())]
        return self._instance(path, value)

    def _module(
        self, path: str, module: types.ModuleType, names: frozenset[str] | None
    ) -> list[Any]:
        version = installed_version(module.__name__)
        if version is not None:
            return ["module", module.__name__, version]
        held = {n: v for n, v in sorted(vars(module).items()) if not n.startswith("__")}
        chosen = held if names is None else {n: v for n, v in held.items() if n in names}
        return [
            "own module",
            *([n, self.refer(f"{path}.{n}", value, names)] for n, value in chosen.items()),
        ]

    def _class(self, path: str, kind: type) -> list[Any]:
        version = installed_version(kind.__module__)
        if version is not None:
            return ["class", f"{kind.__module__}.{kind.__qualname__}", version]
        held = {n: v for n, v in sorted(vars(kind).items()) if _is_behaviour(n, v)}
        if dataclasses.is_dataclass(kind):  # its fields decide the generated methods
            held = {n: v for n, v in held.items() if not _is_generated(v)}
            held |= {f"field {f.name}": _field(f) for f in dataclasses.fields(kind)}
        bases = self._list(path, (type(kind), *kind.__bases__))
        return ["own class", kind.__name__, *bases, *self._all(path, held.items())]

    def _native(self, path: str, function: types.BuiltinFunctionType) -> list[Any]:
        """A function written in C: a function of a module, or a method of a value."""
        owner = function.__self__
        if owner is not None and not isinstance(owner, types.ModuleType):
            return ["bound", function.__name__, self.refer(path, owner)]
        module = str(function.__module__ or getattr(owner, "__name__", ""))
        return ["native", f"{module}.{function.__qualname__}", _native_version(module)]

    def _instance(self, path: str, value: Any) -> list[Any]:
        kind, held = type(value), parts_held(value)
        if held is not None:
            return [kind.__name__, *self._all(path, held.items())]
        if isinstance(value, enum.Enum):
            return ["member", self.refer(path, kind), value.name]
        if is_described(value):
            return [kind.__name__, repr(value)]
        if hasattr(value, "__objclass__"):
            return ["descriptor", kind.__name__, value.__name__]
        if kind.__module__ in VALUE_MODULES:
            return ["value", *self._list(path, value.__reduce__())]
        if installed_version(kind.__module__) is None:
            slots = [n for base in kind.__mro__ for n in getattr(base, "__slots__", ())]
            held = {n: getattr(value, n) for n in slots if hasattr(value, n)}
            held |= getattr(value, "__dict__", {})
            return ["instance", self.refer(path, kind), *self._all(path, sorted(held.items()))]
        return self._lost(path, kind.__name__)

    def _function(self, path: str, function: types.FunctionType) -> list[Any]:
        version = installed_version(function.__module__)
        if version is not None:
            return ["function", f"{function.__module__}.{function.__qualname__}", version]
        self.functions.append(function)
        found = read_code(function.__code__)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        more = {
            "defaults": [function.__defaults__, function.__kwdefaults__],
            **{name: _content(cell) for name, cell in cells},
            **vars(function),  # a decorator stores the wrapped function here
        }
        return [
            *("own function", found.body, self._list(path, found.constants)),
            self._all(path, more.items()),
            self._globals(path, found, function.__globals__),
            [self._import(path, each, found, function.__globals__) for each in found.imports],
        ]

    def _globals(self, path: str, found: CodeNames, space: Mapping[str, Any]) -> list[Any]:
        for name in sorted(found.stored):
            self._lost(f"{path}/{name}", "a global that it sets")
        if found.computed:
            self._lost(path, "a computed attribute name")
        return [[name, self._global(path, name, found, space)] for name in sorted(found.globals)]

    def _global(self, path: str, name: str, found: CodeNames, space: Mapping[str, Any]) -> Any:
        if name in space:
            names = None if name in found.whole else frozenset(found.attributes)
            return self.refer(f"{path}/{name}", space[name], names)
        if name in _UNFORESEEABLE:
            self._lost(f"{path}/{name}", "builtin")
        return "builtin" if hasattr(builtins, name) else "absent"

    def _import(
        self, path: str, each: Import, found: CodeNames, space: Mapping[str, Any]
    ) -> list[Any]:
        version = installed_version(each.module) if not each.level else None
        if version is not None:
            return [each.module, version]
        try:
            package = space.get("__package__") or ""
            module = importlib.import_module("." * each.level + each.module, package)
        except ImportError:
            return self._lost(f"{path}/{each.module}", "module that can not be imported")
        names = None if each.names is None else frozenset({*each.names, *found.attributes})
        return [each.module, self.refer(f"{path}/{each.module}", module, names)]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned to the variable yet
        return None


def _is_behaviour(name: str, value: Any) -> bool:
    """Whether an attribute of a class counts; caches of libraries under special names do not."""
    if not (name.startswith("__") and name.endswith("__")):
        return name != "_abc_impl"
    known = callable(value) or isinstance(value, staticmethod | classmethod | property)
    return name not in _NOT_BEHAVIOUR and (known or literal_text(value) is not None)


def _is_generated(value: Any) -> bool:
    """Whether a value is a method that ``dataclasses`` generated."""
    code = getattr(inspect.unwrap(value) if callable(value) else None, "__code__", None)
    return getattr(code, "co_filename", "") == "<string>"


def _field(field: dataclasses.Field[Any]) -> list[Any]:
    missing = dataclasses.MISSING
    made = [None if held is missing else [held] for held in (field.default, field.default_factory)]
    return [*made, field.init, field.compare, field.hash, field.kw_only]


def _native_version(module: str) -> str:
    """The version of a module written in C; for a module of the user, the SHA-256 of its file."""
    version = installed_version(module)
    file = getattr(sys.modules.get(module), "__file__", None)
    return version or (digest.sha256_file(Path(file)) if file else "")
