"""The identity of a function's behaviour: a walk over the objects in memory that it reaches.

Of each function, these count: instructions, constants, defaults, enclosed variables, and all
objects to which its globals and the attributes of modules lead. Functions and classes are walked in
the same way; values count as they are at that moment. Line numbers, comments and docstrings do not
count. Code of an installed distribution counts by the version of the distribution
(``code_origin``). An object that can not be pinned down is listed by name instead of guessed.
"""

import builtins
import enum
import importlib
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pipeline_lib import digest
from pipeline_lib.chat import code_members, code_unforeseen
from pipeline_lib.chat.code_names import Chain, CodeNames, Import, read_code
from pipeline_lib.chat.code_origin import installed_version, native_version
from pipeline_lib.chat.code_values import (
    VALUE_MODULES,
    builtin_content,
    is_described,
    literal_text,
    parts_held,
)

_CYTHON = "cython_function_or_method"


class CodeIdentity(NamedTuple):
    """The result of a walk.

    ``sha256``: hex digest of everything found. ``unresolved``: the objects that can not be pinned
    down, as paths of names from the root, such as ``"norm/helper/BOX (object)"``. ``functions``:
    the functions reached. ``found``: a path and a text for everything that counts.
    """

    sha256: str
    unresolved: tuple[str, ...]
    functions: tuple[types.FunctionType, ...]
    found: tuple[tuple[str, str], ...] = ()


def code_identity(root: Any) -> CodeIdentity:
    """The identity of a function, or of a tuple of functions and classes."""
    walk, name = _Walk(), str(getattr(root, "__name__", type(root).__name__))
    try:
        walk.refer(name, root)
    except RecursionError:
        walk.unresolved.append(f"{name} (nested too deeply)")
    parts = [digest.of_json(part) for part in walk.parts]
    sha256 = digest.of_json([sys.version_info[:2], parts])
    found = (*walk.literals, *zip(walk.paths, parts, strict=True))
    return CodeIdentity(sha256, tuple(walk.unresolved), tuple(walk.functions), found)


def changed_between(before: CodeIdentity, after: CodeIdentity) -> tuple[str, ...]:
    """The paths of what differs; of a path and those that lead to it, only the longest."""
    paths = {path for path, _ in {*before.found} ^ {*after.found}}
    longest = (p for p in paths if not any(other.startswith(f"{p}/") for other in paths))
    return tuple(sorted(longest))


class _Walk:
    """Collects one part for each object, in the order of the walk.

    A part refers to a literal by its text and to any other object by the number of its part, so
    cycles end.
    """

    def __init__(self) -> None:
        self.parts: list[list[Any]] = []
        self.paths: list[str] = []
        self.literals: list[tuple[str, str]] = []
        self.unresolved: list[str] = []
        self.functions: list[types.FunctionType] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # kept alive, so that no other object gets their id

    def refer(self, path: str, value: Any) -> str | int:
        """The text or number by which a part refers to a value."""
        literal = literal_text(value)
        if literal is not None:
            self.literals.append(
                (path, digest.sha256_bytes(literal.encode(errors="backslashreplace")))
            )
            return literal
        if id(value) not in self._numbers:
            self._kept.append(value)
            number = self._numbers[id(value)] = len(self.parts)
            self.parts.append([])
            self.paths.append(path)
            self.parts[number] = self._part(path, value)
        return self._numbers[id(value)]

    def _all(self, path: str, items: Iterable[tuple[str, Any]]) -> list[Any]:
        return [[name, self.refer(f"{path}/{name}", value)] for name, value in items]

    def _list(self, path: str, values: Iterable[Any]) -> list[Any]:
        return [self.refer(path, value) for value in values]

    def _lost(self, path: str, what: str) -> list[Any]:
        self.unresolved.append(f"{path} ({what})")
        return ["unresolved"]

    def _part(self, path: str, value: Any) -> list[Any]:
        if isinstance(value, types.ModuleType):
            return self._module(path, value)
        if isinstance(value, type):
            return self._class(path, value)
        if isinstance(value, types.FunctionType):
            return self._function(path, value)
        if isinstance(value, types.BuiltinFunctionType) or type(value).__name__ == _CYTHON:
            return self._native(path, value)
        if type(value) in (tuple, list):
            return [type(value).__name__, *self._list(path, value)]
        if type(value) is dict:
            return ["dict", *(self._list(path, item) for item in value.items())]
        return self._instance(path, value)

    def _module(self, path: str, module: types.ModuleType) -> list[Any]:
        version = installed_version(module.__name__)
        if version is not None:
            return ["module", module.__name__, version]
        names = sorted(n for n in vars(module) if not n.startswith("__") or n == "__getattr__")
        held = ((n, self.refer(f"{path}.{n}", vars(module)[n])) for n in names)
        return ["own module", native_version(module.__name__), *map(list, held)]

    def _chain(self, path: str, value: Any, chain: Chain) -> Any:
        """What counts of a value of which a chain of attributes is loaded."""
        if not chain or not isinstance(value, types.ModuleType | type):
            return self.refer(path, value)
        name, version = chain[0], installed_version(code_members.home(value))
        if isinstance(value, type):
            return [self.refer(path, value), self._of_class(path, value, name)]
        held = getattr(value, name, value)  # a module may load it when it is asked for first
        if held is value or name == "__dict__":
            return self.refer(path, value)
        if version is None or isinstance(held, types.ModuleType | type):
            return self._chain(f"{path}.{name}", held, chain[1:])
        return self._of_installed(f"{path}.{name}", value.__name__, name, held)

    def _of_class(self, path: str, kind: type, name: str) -> str:
        if code_unforeseen.is_unforeseen(code_members.full_name(kind), name):
            self._lost(f"{path}.{name}", "the world outside")
        return name

    def _of_installed(self, path: str, module: str, name: str, value: Any) -> Any:
        """What counts of a value that an installed module holds: a cell may have put it there."""
        if code_unforeseen.is_unforeseen(module, name):
            return self._lost(path, "the world outside")
        if code_members.holds_code(value) or literal_text(value) is not None:
            return self.refer(path, value)
        return ["held", module, name]

    def _class(self, path: str, kind: type) -> list[Any]:
        version, name = installed_version(kind.__module__), code_members.full_name(kind)
        if version is not None and code_members.is_found(kind):
            if code_unforeseen.is_unforeseen(kind.__module__, kind.__qualname__):
                self._lost(path, "the world outside")
            return ["class", name, version]
        if installed_version(type(kind).__module__) not in (None, "python"):
            self._lost(path, f"a class made by {type(kind).__name__}")
        held = code_members.members_of(kind)
        bases = self._list(path, (type(kind), *kind.__bases__))
        code = native_version(kind.__module__)
        return ["own class", kind.__name__, code, *bases, *self._all(path, held.items())]

    def _native(self, path: str, function: Any) -> list[Any]:
        """A function written in C: a function of a module, or a method of a value."""
        owner = getattr(function, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            if isinstance(owner, type):
                self._of_class(path, owner, function.__name__)
            return ["bound", function.__name__, self.refer(path, owner)]
        module = str(function.__module__ or getattr(owner, "__name__", ""))
        if code_unforeseen.is_unforeseen(module, function.__name__):
            return self._lost(path, "the world outside")
        return ["native", f"{module}.{function.__qualname__}", native_version(module)]

    def _instance(self, path: str, value: Any) -> list[Any]:
        kind, held = type(value), parts_held(value)
        if held is not None:
            return [kind.__name__, *self._all(path, held.items())]
        if isinstance(value, enum.Enum):
            return ["member", self.refer(path, kind), value.name, self.refer(path, value.value)]
        if is_described(value):
            return [kind.__name__, repr(value)]
        if installed_version(kind.__module__) is None or not code_members.is_found(kind):
            return self._own_instance(path, value)
        if hasattr(value, "__objclass__"):
            owner = code_members.full_name(value.__objclass__)
            return ["descriptor", kind.__name__, owner, value.__name__]
        if kind.__module__.partition(".")[0] in VALUE_MODULES:
            return ["value", *self._list(path, value.__reduce__())]
        return self._lost(path, kind.__name__)

    def _own_instance(self, path: str, value: Any) -> list[Any]:
        kind = type(value)
        if code_members.may_hide_state(kind):
            return self._lost(path, kind.__name__)
        content = self.refer(path, builtin_content(value))
        held = sorted(code_members.attributes_of(value))
        return ["instance", self.refer(path, kind), content, *self._all(path, held)]

    def _function(self, path: str, function: types.FunctionType) -> list[Any]:
        module = function.__globals__.get("__name__")  # ``wraps`` copies ``__module__``
        version = installed_version(module)
        if version is not None:
            return self._installed_function(path, function, str(module), version)
        self.functions.append(function)
        found = read_code(function.__code__)
        defaults = [function.__defaults__, function.__kwdefaults__]
        more = [("defaults", defaults), *code_members.held_by(function)]
        return [
            *("own function", found.body, self._list(path, found.constants)),
            self._all(path, more),
            self._globals(path, found, function.__globals__),
            [self._import(path, each, found, function.__globals__) for each in found.imports],
        ]

    def _installed_function(
        self, path: str, function: types.FunctionType, module: str, version: str
    ) -> list[Any]:
        """By its version, and by the code of the user that it wraps."""
        name = function.__qualname__
        if code_unforeseen.is_unforeseen(module, name):
            return self._lost(path, "the world outside")
        wraps = installed_version(function.__module__) is None
        held = [
            (n, value)
            for n, value in code_members.held_by(function)
            if wraps or code_members.holds_code(value)
        ]
        return ["function", f"{module}.{name}", version, *self._all(path, held)]

    def _globals(self, path: str, found: CodeNames, space: Mapping[str, Any]) -> list[Any]:
        for name in sorted(found.stored):
            self._lost(f"{path}/{name}", "a global that it sets")
        for name in sorted(found.enclosed):
            self._lost(f"{path}/{name}", "an enclosed variable that it sets")
        for name in sorted(found.attributes & code_unforeseen.ATTRIBUTES):
            self._lost(f"{path}/{name}", "the world outside")
        if found.computed:
            self._lost(path, "a computed attribute name")
        return [
            [name, self._global(path, name, sorted(chains), space)]
            for name, chains in sorted(found.globals.items())
        ]

    def _global(
        self, path: str, name: str, chains: Iterable[Chain], space: Mapping[str, Any]
    ) -> Any:
        if name in space:
            return [self._chain(f"{path}/{name}", space[name], chain) for chain in chains]
        if name in code_unforeseen.BUILTINS:
            self._lost(f"{path}/{name}", "builtin")
        held = getattr(builtins, name, None)  # a cell may have replaced it
        if isinstance(held, types.FunctionType):
            return self.refer(f"{path}/{name}", held)
        return "builtin" if hasattr(builtins, name) else "absent"

    def _import(
        self, path: str, each: Import, found: CodeNames, space: Mapping[str, Any]
    ) -> list[Any]:
        package, path = space.get("__package__") or "", f"{path}/{each.module}"
        try:
            module = importlib.import_module("." * each.level + each.module, package)
        except ImportError:
            return self._lost(path, "module that can not be imported")
        version = installed_version(module.__name__)
        if version is not None:
            names = {n for n in (*(each.names or ()), *found.attributes) if hasattr(module, n)}
            held = ((n, self._chain(path, module, (n,))) for n in sorted(names))
            return [each.module, version, *map(list, held)]
        if each.names is None:  # the name that is bound may be the top-level package
            top = sys.modules[module.__name__.partition(".")[0]]
            return [each.module, self._list(path, (module, top))]
        named = (getattr(module, name, None) for name in each.names)
        return [each.module, *self._list(path, named)]
