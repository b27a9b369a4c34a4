"""Small wrong changes of a module's source, one at a time.

Left out is what only words a message: what is raised or logged, f-strings, docstrings, ``__str__``,
annotations and decorators. So is what decides no result: numbers that a module gives a name, such
as block sizes and versions, and the closing of files.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

Node = TypeVar("Node", bound=ast.AST)


class Change(NamedTuple):
    """Bytes ``start:stop`` of a source are replaced by ``text``.

    ``old`` and ``new``: the lines that differ, on one line without indentation.
    """

    operator: str
    start: int
    stop: int
    text: str
    old: str
    new: str

    def applied(self, source: bytes) -> bytes:
        """The changed source."""
        return source[: self.start] + self.text.encode() + source[self.stop :]


def changes(source: bytes) -> list[Change]:
    """All changes of a module, in the order of its lines."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[bytes, Change] = {}
    for node in _behaviour(ast.parse(source)):
        for name, operator in OPERATORS.items():
            for place, text in operator(node):
                start = starts[place.lineno - 1] + place.col_offset
                stop = starts[(place.end_lineno or 0) - 1] + (place.end_col_offset or 0)
                change = _described(name, start, stop, text, source)
                if change.old != change.new:
                    found.setdefault(change.applied(source), change)
    return sorted(found.values(), key=lambda change: (change.start, change.stop, change.text))


def _described(operator: str, start: int, stop: int, text: str, source: bytes) -> Change:
    first = source.rfind(b"\n", 0, start) + 1
    last = (source + b"\n").find(b"\n", stop)
    before, after = source[first:start].decode(), source[stop:last].decode()
    old = source[first:last].decode()
    one_line = (" ".join(lines.split()) for lines in (old, before + text + after))
    return Change(operator, start, stop, text, *one_line)


_LOGS = ("_log", "_LOG")


def _behaviour(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that decide what the module does."""
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Raise():
            yield node
            return
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in _LOGS:
            return
        case ast.BinOp(op=ast.LShift() | ast.Pow(), left=ast.Constant(), right=ast.Constant()):
            return
        case ast.FunctionDef(name="__str__" | "__repr__") | ast.keyword(arg="strict"):
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Module():
            node = ast.Module([n for n in node.body if not _names_a_number(n)], [])
    yield node
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list", "bases"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _behaviour(child)


def _names_a_number(statement: ast.stmt) -> bool:
    """Whether a statement gives a name to what is calculated from numbers alone."""
    if not isinstance(statement, ast.Assign):
        return False
    nodes = list(ast.walk(statement.value))
    kinds = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop, ast.Load)
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return all(isinstance(node, kinds) for node in nodes) and all(
        type(value) in (int, float) for value in values
    )


Place = ast.expr | ast.stmt
Replacements = Iterator[tuple[Place, str]]


def _changed(node: Node, change: Callable[[Node], object]) -> tuple[Node, str]:
    """The node, and the text of a copy of it that was changed."""
    other = copy.deepcopy(node)
    change(other)
    return node, f"({ast.unparse(other)})"


_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE,), ast.LtE: (ast.Lt,), ast.Gt: (ast.GtE,), ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip


def _compare(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in _COMPARISONS[type(operator)]:
                yield _changed(node, lambda n, p=place, o=other: n.ops.__setitem__(p, o()))


def _connect(node: ast.AST) -> Replacements:
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _changed(node, lambda n: setattr(n, "op", other))


def _affirm(node: ast.AST) -> Replacements:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, f"({ast.unparse(node.operand)})"


_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.FloorDiv: ast.Mult, ast.Mult: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


def _is_text(node: ast.AST) -> bool:
    """Whether a sum is one of texts or lists, for which there is no other sign."""
    shown = (ast.Constant, ast.List, ast.Tuple, ast.JoinedStr)
    values = [node.left, node.right] if isinstance(node, ast.BinOp) else []
    return any((isinstance(v, shown) and not _is_number(v)) or _is_text(v) for v in values)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _calculate(node: ast.AST) -> Replacements:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text(node):
        other = _ARITHMETIC[type(node.op)]
        yield _changed(node, lambda n: setattr(n, "op", other()))


def _constant(node: ast.AST) -> Replacements:
    """Of an argument ``strict=True`` nothing but an error follows, which good code never meets."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value < 256:
        yield node, str(node.value + 1)  # larger ones are sizes and modes


_TWINS = {"all": "any", "any": "all", "min": "max", "max": "min"}


def _twin(node: ast.AST) -> Replacements:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _TWINS:
            field = "id" if isinstance(node.func, ast.Name) else "attr"
            yield _changed(node, lambda n: setattr(n.func, field, _TWINS[name]))


def _unsorted(node: ast.AST) -> Replacements:
    match node:
        case ast.Call(func=ast.Name(id="sorted"), args=[what]):
            yield node, f"list({ast.unparse(what)})"
    if isinstance(node, ast.Call):
        for place, keyword in enumerate(node.keywords):
            if keyword.arg in ("key", "reverse", "kind"):
                yield _changed(node, lambda n, p=place: n.keywords.pop(p))


def _swapped(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Call) and ast.unparse(node.func) not in ("max", "min"):
        for place in range(len(node.args) - 1):
            one, two = node.args[place : place + 2]
            names = isinstance(one, ast.Name | ast.Attribute) and isinstance(
                two, ast.Name | ast.Attribute
            )
            if names and ast.unparse(one) != ast.unparse(two):
                yield _changed(node, lambda n, p=place: _swap(n.args, p))


def _swap(values: list[ast.expr], place: int) -> None:
    values[place], values[place + 1] = values[place + 1], values[place]


def _dropped_statement(node: ast.AST) -> Replacements:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))) if (
            name.strip("_") in ("close", "shutdown")
        ):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            if name not in _LOGS:
                yield node, "pass"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete():
            yield node, "pass"
        case ast.Raise() if node.exc is not None:
            yield node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"


def _jump(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Break | ast.Continue):
        yield node, "continue" if isinstance(node, ast.Break) else "break"


def _untaken(node: ast.AST) -> Replacements:
    """A branch that is never taken; a refusal that is dropped is another operator."""
    if isinstance(node, ast.If) and not isinstance(node.body[0], ast.Raise):
        yield node.test, "False"
    if isinstance(node, ast.IfExp):
        yield node, f"({ast.unparse(node.orelse)})"
        yield node, f"({ast.unparse(node.body)})"


def _returned(node: ast.AST) -> Replacements:
    nothing = ("return", "return None", "return False", "return self")
    if isinstance(node, ast.Return) and ast.unparse(node) not in nothing:
        yield node, "return None"


def _without_part(node: ast.AST) -> Replacements:
    """A dict without one of its named fields, an argument or a caught error without one item."""
    if isinstance(node, ast.Dict):
        for place, key in enumerate(node.keys):
            if isinstance(key, ast.Constant):
                yield _changed(node, lambda n, p=place: (n.keys.pop(p), n.values.pop(p)))
    inside = [*node.args] if isinstance(node, ast.Call) else []
    inside += [node.type] if isinstance(node, ast.ExceptHandler) and node.type else []
    for display in inside:
        if isinstance(display, ast.List | ast.Tuple) and len(display.elts) > 1:
            for place in range(len(display.elts)):
                yield _changed(display, lambda n, p=place: n.elts.pop(p))


OPERATORS: dict[str, Callable[[ast.AST], Replacements]] = {
    "comparison": _compare,
    "and for or": _connect,
    "not": _affirm,
    "sign": _calculate,
    "constant": _constant,
    "all for any": _twin,
    "order": _unsorted,
    "swapped arguments": _swapped,
    "dropped statement": _dropped_statement,
    "break for continue": _jump,
    "branch not taken": _untaken,
    "nothing returned": _returned,
    "dropped part": _without_part,
}
"""Name of a kind of change -> the replacements of a node by a text."""
