"""What a function of the notebook depends on, as text that can be digested.

The identity of a normalizer covers its own source, that of every notebook function it names
(and so on), the values of the literal globals they read, and the versions of the packages they
use. What can not be pinned down is listed instead of guessed: then nothing stored by that
function is reused.
"""

import builtins
import dis
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from pipeline_lib import digest

_LITERALS = (bool, int, float, complex, str, bytes, type(None))
_LIBRARY = __name__.partition(".")[0]


class CodeIdentity(NamedTuple):
    """Hex SHA-256 over all that was found, and the names that could not be pinned down."""

    sha256: str
    unresolved: tuple[str, ...]


def code_identity(function: Callable[..., Any]) -> CodeIdentity:
    """Identity of a function's behaviour, as far as its source and what it names decide it.

    The own library's functions count by name only; their digest belongs beside this one.
    """
    found = _Found()
    found.visit(getattr(function, "__name__", type(function).__name__), function)
    parts = sorted(found.parts.items())
    return CodeIdentity(digest.of_json([sys.version_info[:2], parts]), tuple(found.unresolved))


class _Found:
    """The walk: one part of text for each thing met, by its qualified name."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self.unresolved: list[str] = []
        self._seen: set[int] = set()

    def visit(self, name: str, value: Any) -> None:
        literal = literal_text(value)
        if literal is not None:
            self.parts[name] = literal
        elif isinstance(value, ModuleType):
            self._visit_module(name, value)
        elif isinstance(value, functools.partial):
            self.visit(f"{name}.func", value.func)
            self.visit(f"{name}.args", [value.args, value.keywords])
        elif _is_installed(value):
            origin = value.__module__ or "builtins"
            self.parts[name] = f"{origin}.{value.__qualname__} {_version(origin)}"
        elif isinstance(value, FunctionType):
            self._visit_function(name, value)
        else:
            self.unresolved.append(f"{name} ({type(value).__name__})")

    def _visit_module(self, name: str, module: ModuleType) -> None:
        if _is_foreign(module.__name__):
            self.parts[name] = f"module {module.__name__} {_version(module.__name__)}"
            return
        try:
            self.parts[name] = inspect.getsource(module)
        except (OSError, TypeError):
            self.unresolved.append(f"{name} (module without source)")

    def _visit_function(self, name: str, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        try:
            self.parts[name] = inspect.getsource(function)
        except (OSError, TypeError):
            self.unresolved.append(f"{name} (source not found)")
            return
        for other, value in _named(function):
            self.visit(f"{name}/{other}", value)


def _named(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Globals, enclosed variables and defaults that a function reads; absent names are left out."""
    names = sorted(_global_names(function.__code__))
    yield from (
        (name, function.__globals__[name]) for name in names if name in function.__globals__
    )
    yield from inspect.getclosurevars(function).nonlocals.items()
    yield "defaults", [function.__defaults__, function.__kwdefaults__]


def _global_names(code: CodeType) -> set[str]:
    names = {
        step.argval for step in dis.get_instructions(code) if step.opname.startswith("LOAD_GLOBAL")
    }
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names |= _global_names(inner)
    return names


def literal_text(value: Any) -> str | None:
    """One spelling of a literal, also nested; None for anything else."""
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


def _is_installed(value: Any) -> bool:
    """Whether it is code of a package, of Python or of this library, not of the notebook."""
    if isinstance(value, BuiltinFunctionType) or any(value is b for b in vars(builtins).values()):
        return True
    if not isinstance(value, FunctionType | type):
        return False
    return _is_foreign(value.__module__)


def _is_foreign(module_name: str | None) -> bool:
    root = (module_name or "__main__").partition(".")[0]
    if root == "__main__":  # the notebook, whatever file its kernel was started from
        return False
    if root == _LIBRARY or root in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(root), "__file__", None)
    return "site-packages" in (file or "")


def _version(module: str) -> str:
    root = sys.modules.get(module.partition(".")[0])
    return str(getattr(root, "__version__", "")) if root else ""
