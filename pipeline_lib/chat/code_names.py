"""The instructions of a code object and the names in them. Pure.

Line numbers, comments and docstrings do not count: constants are numbered in the order in which
they are loaded, and a docstring is never loaded.
"""

import dis
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

_ATTRIBUTE_LOADS = ("LOAD_ATTR", "LOAD_METHOD")
_GLOBAL_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_GLOBAL_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL")
_ENCLOSED_STORES = ("STORE_DEREF", "DELETE_DEREF")
_CALL = "PRECALL" if "PRECALL" in dis.opmap else "CALL"
_GETTERS = ("getattr", "hasattr")

Chain = tuple[str, ...]
"""Attributes that are loaded one after the other."""


class Import(NamedTuple):
    """An import inside a function; ``names`` is None if the module itself is bound."""

    module: str
    level: int
    names: tuple[str, ...] | None


@dataclass
class CodeNames:
    """The instructions of one code object and of the code objects inside it, and their names.

    ``body``: instructions, with constants as indices into ``constants``. ``globals``: each global
    that is read, with the chains of attributes that are loaded from it: ``a.b.c`` is ``("b", "c")``
    of ``a``, and ``()`` is ``a`` itself. ``stored`` and ``enclosed``: globals and enclosed
    variables that are set. ``attributes``: all attributes that are loaded. ``imports``: imports
    inside the code. ``computed``: whether the name of an attribute is computed somewhere.
    """

    body: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    globals: dict[str, set[Chain]] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    enclosed: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    imports: list[Import] = field(default_factory=list)
    computed: bool = False


@functools.lru_cache(2_048)
def read_code(code: CodeType) -> CodeNames:
    """The instructions and names of a code object; equal code objects give the same one."""
    found = CodeNames()
    _read(code, found)
    found.enclosed &= {*code.co_freevars}  # not the variables of functions inside
    return found


def _read(code: CodeType, found: CodeNames) -> None:
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    variables = (code.co_varnames, code.co_freevars, code.co_cellvars)
    found.body.append([*counts, *map(list, variables), code.co_exceptiontable.hex()])
    for place, step in enumerate(steps):
        if step.opcode in dis.hasconst:
            _read_constant(step, code, found)
            continue
        found.body.append([step.opname, step.argrepr or step.arg])
        if step.opname in _GLOBAL_LOADS:
            _read_use(steps[place:], found)
        elif step.opname in _GLOBAL_STORES:
            found.stored.add(step.argval)
        elif step.opname in _ENCLOSED_STORES:
            found.enclosed.add(step.argval)
        elif step.opname in _ATTRIBUTE_LOADS:
            found.attributes.add(step.argval)
        elif step.opname == "IMPORT_NAME":
            level, names = (before.argval for before in steps[place - 2 : place])
            found.imports.append(Import(step.argval, int(level), names))


def _read_constant(step: dis.Instruction, code: CodeType, found: CodeNames) -> None:
    constant = code.co_consts[step.arg or 0]
    if isinstance(constant, CodeType):
        found.body.append([step.opname, "code"])
        _read(constant, found)
    else:
        found.body.append([step.opname, len(found.constants)])
        found.constants.append(constant)


def _read_use(steps: Sequence[dis.Instruction], found: CodeNames) -> None:
    """Record how the code uses the global that the first step loads."""
    name = steps[0].argval
    loads = itertools.takewhile(lambda step: step.opname in _ATTRIBUTE_LOADS, steps[1:])
    found.globals.setdefault(name, set()).add(tuple(step.argval for step in loads))
    if name in _GETTERS:
        attribute = _second_argument(steps[1:])
        found.attributes.update([attribute] if isinstance(attribute, str) else [])
        found.computed |= attribute is None


def _second_argument(steps: Sequence[dis.Instruction]) -> str | None:
    """The second argument of the call whose callable was just loaded, if it is a constant text.

    None if it is computed, or if the instructions do not show it.
    """
    depth, ends = 0, list[int]()  # the last step of each complete argument
    for place, step in enumerate(steps):
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return None
        if step.opname == _CALL and step.arg == depth:
            break
        depth += dis.stack_effect(step.opcode, step.arg)
        del ends[max(depth - 1, 0) :]
        if depth > 0:
            ends += [place] * (depth - len(ends))
    last = steps[ends[1]] if len(ends) > 1 else None
    is_text = last is not None and last.opname == "LOAD_CONST" and isinstance(last.argval, str)
    return last.argval if last is not None and is_text else None
