"""Expressions: how a rendered string is computed again from the strings of a conversation.

While a template is rendered, each string remembers the expression that made it. A skeleton compiles
these expressions to Python, see ``skeletons``.
"""

from collections.abc import Hashable, Iterable
from itertools import takewhile
from typing import NamedTuple

SourcePath = tuple[str | int, ...]
"""Where a string stands: ``("messages", 0, "content")``, ``("tools", 1, "function", "name")``."""


def common_path(paths: Iterable[SourcePath]) -> SourcePath | None:
    """What all paths begin with, be it nothing; None if there is no path."""
    found = list(paths)
    if not found:
        return None
    same = takewhile(lambda steps: len(set(steps)) == 1, zip(*found, strict=False))
    return tuple(steps[0] for steps in same)


class Expression(NamedTuple):
    """An operation and its operands.

    literal (text)           text of the template
    constant (value)         a number, a truth value or None
    source (path)            a string of the conversation
    join (expressions)       one string after another
    call (method, string, arguments)   a method of ``str``
    item (expression, index)           one of the strings that a method gave
    slice (string, start, stop)
    json (string, options)             the JSON text of a string
    json_source (path, options)        the JSON text of a part of the conversation
    unknown ()               nothing that can be computed again

    ``steps``: how deep expressions lie in each other here.
    """

    operation: str
    operands: tuple[Hashable, ...] = ()
    steps: int = 0


UNKNOWN = Expression("unknown")


def literal(text: str) -> Expression:
    """A text of the template itself."""
    return Expression("literal", (text,))


def is_literal(expression: Expression) -> bool:
    """Whether the conversation has no part in the string."""
    if expression.operation == "join":
        return all(isinstance(e, Expression) and is_literal(e) for e in expression.operands)
    return expression.operation in ("literal", "constant")


def joined(expressions: list[Expression]) -> Expression:
    """One string after another; literals that meet become one, so equal results have equal form."""
    parts: list[Expression] = []
    for part in expressions:
        if parts and part.operation == parts[-1].operation == "literal":
            parts[-1] = literal(f"{parts[-1].operands[0]}{part.operands[0]}")
        else:
            parts.append(part)
    return parts[0] if len(parts) == 1 else applied("join", tuple(parts))


def applied(operation: str, operands: tuple[Hashable, ...]) -> Expression:
    """An operation on expressions, which may also stand in tuples among the operands."""
    each = (o if type(o) is tuple else (o,) for o in operands)
    inside = (o.steps for some in each for o in some if isinstance(o, Expression))
    return Expression(operation, operands, 1 + max(inside, default=0))
