"""Strings that remember where their characters come from, and record what they are asked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Self

from pipeline_lib.tracing.expressions import Expression, is_literal
from pipeline_lib.tracing.segments import Segments, TextSegment, expression_of, text_of, tidy
from pipeline_lib.tracing.text_methods import ORDERS, QUESTIONS
from pipeline_lib.tracing.trace import TemplateRefused, running


class AskedText(str):
    """A string made of segments. Equal to, and hashed as, the plain string."""

    __slots__ = ("_expression", "segments")
    segments: Segments
    _expression: Expression | None

    def __new__(cls, segments: Iterable[TextSegment]) -> Self:
        kept = tidy(segments)
        self = str.__new__(cls, text_of(kept))
        self.segments, self._expression = kept, None
        running().spend(str.__len__(self), len(kept))
        return self

    @property
    def plain(self) -> str:
        """The same characters as an ordinary string."""
        return str.__str__(self)

    @property
    def expression(self) -> Expression:
        """How the string is computed again."""
        if self._expression is None:
            self._expression = expression_of(self.segments)
        return self._expression

    @property
    def fixed(self) -> bool:
        """Whether it is text of the template, the same for all conversations."""
        return is_literal(self.expression)

    def ask(self, question: str, answer: Hashable, *arguments: object) -> Any:
        """Record a question, unless nothing but the template's own text is asked; the answer."""
        running().read(str.__len__(self))
        if arguments or not self.fixed:
            running().guard(question, self.expression, operands(arguments), answer)
        return answer

    def __str__(self) -> str:
        return self

    def __hash__(self) -> int:
        return hash(self.exact())

    def exact(self) -> str:
        """The plain string; a skeleton then serves only conversations with this very string."""
        return str(self.ask("value", self.plain))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return False
        return bool(self.ask("==", self.plain == plain(other), other))

    def __ne__(self, other: object) -> bool:
        return not self.__eq__(other)

    def __bool__(self) -> bool:
        return bool(self.ask("bool", bool(self.plain)))

    def __contains__(self, other: object) -> bool:
        return bool(self.ask("contains", plain(other) in self.plain, other))

    def __len__(self) -> int:
        return int(self.ask("length", str.__len__(self)))


def _comparison(sign: str) -> Callable[..., bool]:
    def compare(self: AskedText, other: str) -> bool:
        return bool(self.ask(sign, ORDERS[sign](self.plain, plain(other)), other))

    return compare


def _question(method: str) -> Callable[..., Any]:
    def ask(self: AskedText, *arguments: str) -> Any:
        if len(arguments) > 1:
            raise TemplateRefused("operation", f"{method} with bounds")
        answer = getattr(self.plain, method)(*map(plain, arguments))
        return self.ask(method, answer, *arguments)

    return ask


for _sign, _order in ORDERS.items():
    setattr(AskedText, f"__{_order.__name__}__", _comparison(_sign))
for _name in QUESTIONS:
    setattr(AskedText, _name, _question(_name))


def plain(value: Any) -> Any:
    """The same value without traced strings: a string, or a container of them."""
    if isinstance(value, AskedText):
        return value.plain
    if isinstance(value, dict):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def operands(arguments: Iterable[object]) -> tuple[Hashable, ...]:
    """Arguments as operands: traced strings as expressions, the rest by value."""
    return tuple(
        a.expression if isinstance(a, AskedText) else Expression("constant", (a,))
        for a in arguments
    )
