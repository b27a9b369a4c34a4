"""A template's syntax tree, rewritten so that rendering is counted and traced."""

from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.visitor import NodeTransformer

from pipeline_lib.tracing.rules import REFUSED_NODES
from pipeline_lib.tracing.trace import TemplateRefused

EMITTED, JOINED, STEP = "text_emitted", "text_joined", "step_taken"
PAID, SEARCHED, LOOKED = "value_paid", "members_paid", "item_looked_at"
ENTER, LEAVE, ASSIGN = "loop_entered", "loop_left", "message_assigned"
"""What rewritten templates call: attributes of the environment, which no template can reach."""

LITERAL = "literal_of_the_template_"
"""Begins the names of the environment's attributes that hold texts of the template."""


class Generation(Extension):
    """``{% generation %}``, with which patched templates mark what is trained: text as it is."""

    tags = {"generation"}  # noqa: RUF012 (so is it declared by Jinja)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def call(name: str, *arguments: nodes.Expr) -> nodes.Call:
    """A call of one of the names above."""
    return nodes.Call(nodes.EnvironmentAttribute(name), list(arguments), [], None, None)


def check_tree(tree: nodes.Template) -> None:
    """Refuse statements that are not allowed."""
    for node in tree.find_all(REFUSED_NODES):
        raise TemplateRefused("statement", type(node).__name__)


class Counting(NodeTransformer):
    """Each pass of a loop and each call of a macro is a step, each item that a loop leaves out is
    looked at."""

    def visit_For(self, node: nodes.For, *args: Any) -> Any:
        size = _size(node)
        self.generic_visit(node)
        if node.test is not None:
            node.test = nodes.Or(call(LOOKED), node.test)
        node.body.insert(0, nodes.ExprStmt(call(STEP, nodes.Const(size))))
        return node

    def visit_Macro(self, node: nodes.Macro) -> Any:
        size = _size(node)
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(call(STEP, nodes.Const(size))))
        return node

    visit_CallBlock = visit_Macro


def _size(node: nodes.Node) -> int:
    """How many parts a statement has; those of loops inside it are counted with these again."""
    return sum(1 for _ in node.find_all(nodes.Node))


class Tracing(Counting):
    """Texts of the template become literals, output is emitted, loops tell whose turn it is;
    comparisons and slices are paid for."""

    def __init__(self) -> None:
        self.literals: dict[str, str] = {}
        self._numbers = 0
        self._loops: list[int] = []

    def visit_Const(self, node: nodes.Const) -> nodes.Expr:
        return self._literal(node.value) if isinstance(node.value, str) else node

    def _literal(self, text: str) -> nodes.Expr:
        """A text of the template: an attribute of the environment, made once."""
        name = self.literals.setdefault(text, f"{LITERAL}{len(self.literals)}")
        return nodes.EnvironmentAttribute(name)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        self.generic_visit(node)
        return call(JOINED, nodes.List(node.nodes))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Expr:
        self.generic_visit(node)
        node.expr = call(PAID, node.expr)
        for operand in node.ops:
            name = SEARCHED if operand.op in ("in", "notin") else PAID
            operand.expr = call(name, operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = call(PAID, node.node)
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        node.nodes = [call(EMITTED, self._output(part)) for part in node.nodes]
        return node

    def _output(self, part: nodes.Expr) -> nodes.Expr:
        if isinstance(part, nodes.TemplateData):
            return self._literal(part.data)
        return self.visit(part)  # type: ignore[no-any-return]

    def visit_For(self, node: nodes.For, *args: Any) -> Any:
        self._numbers += 1
        loop = nodes.Const(self._numbers)
        self._loops.append(self._numbers)
        super().visit_For(node)
        self._loops.pop()
        if isinstance(node.target, nodes.Name):
            item = nodes.Name(node.target.name, "load")
            node.body.insert(0, nodes.ExprStmt(call(ENTER, loop, item)))
        return [node, nodes.ExprStmt(call(LEAVE, loop))]

    def visit_Assign(self, node: nodes.Assign) -> Any:
        self.generic_visit(node)
        if not (self._loops and isinstance(node.target, nodes.Name)):
            return node
        value = nodes.Name(node.target.name, "load")
        return [node, nodes.ExprStmt(call(ASSIGN, nodes.Const(self._loops[-1]), value))]

    def visit_Macro(self, node: nodes.Macro) -> Any:
        loops, self._loops = self._loops, []
        super().visit_Macro(node)
        self._loops = loops
        return node

    visit_CallBlock = visit_Macro
