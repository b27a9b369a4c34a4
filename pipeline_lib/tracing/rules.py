"""What a chat template may use. Everything else is refused by name before anything is rendered.

The lists hold what keeps the origin of each character exact. ``traced_filters`` replaces those of
Jinja's filters that would ask a string something without a record.
"""

from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import nodes
from jinja2.filters import do_round, do_title

from pipeline_lib.tracing.asked_text import plain
from pipeline_lib.tracing.costs import LARGEST_POWER, bounded_number
from pipeline_lib.tracing.segments import NO_TEXT, TextSegment
from pipeline_lib.tracing.trace import TemplateRefused, running
from pipeline_lib.tracing.traced_text import TracedText, is_said, literal_text
from pipeline_lib.tracing.traced_values import TracedLength, to_text, traced_json

_FILTERS = """
abs capitalize count d default dictsort first float int items join last length list lower map max
min reject rejectattr replace reverse round safe select selectattr string sum title tojson trim
unique upper
"""
_TESTS = """
!= < <= == > >= boolean callable defined divisibleby eq equalto even false float ge gt greaterthan
in integer iterable le lessthan lt mapping ne none number odd sameas sequence string true undefined
"""
FILTERS, TESTS = frozenset(_FILTERS.split()), frozenset(_TESTS.split())
REFUSED_NODES = (
    nodes.Extends,
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.Block,
    nodes.EvalContextModifier,
    nodes.Pow,
)
"""Statements that read other templates or change how text is written, and powers."""


def joined_text(pieces: Iterable[Any]) -> TracedText:
    """Pieces one after another."""
    segments: list[TextSegment] = []
    for piece in pieces:
        segments.extend(to_text(piece).segments)
    return TracedText(segments or NO_TEXT)


def _length(value: Any) -> Any:
    return TracedLength(value) if isinstance(value, TracedText) else len(value)


def _join(value: Iterable[Any], separator: Any = "", attribute: Any = None) -> TracedText:
    if attribute is not None:
        raise TemplateRefused("filter", "join of an attribute")
    return to_text(separator or literal_text("")).join([to_text(item) for item in value])


def _number(kind: Callable[[Any], Any], zero: Any) -> Callable[..., Any]:
    def convert(value: Any, default: Any = zero) -> Any:
        if is_said(value):
            raise TemplateRefused("operation", "a number read from the conversation")
        try:
            return kind(value.exact() if isinstance(value, TracedText) else value)
        except (TypeError, ValueError):
            return default

    return convert


def _reverse(value: Any) -> Any:
    if isinstance(value, str):
        raise TemplateRefused("operation", "a reversed string")
    return list(reversed(value))


def _trim(value: Any, characters: str | None = None) -> TracedText:
    return to_text(value).strip(characters)


def _title(value: Any) -> TracedText:
    """Jinja's filter, which is not the method of the same name."""
    text = to_text(value)
    return text.in_form(do_title(text.plain))


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, str) or isinstance(other, str):
        raise TemplateRefused("test", "sameas of strings")
    return value is other


def _round(value: Any, precision: int = 0, method: str = "common") -> Any:
    if not -LARGEST_POWER <= precision <= LARGEST_POWER:
        raise TemplateRefused("template makes too large a number", "rounded to many places")
    return do_round(value, precision, plain(method))


def _sum(values: Any, attribute: Any = None, start: Any = 0) -> Any:
    if not isinstance(start, int | float):
        raise TemplateRefused("filter", "sum of what is not a number")
    if attribute is not None:
        raise TemplateRefused("filter", "sum of an attribute")
    return bounded_number(sum(values, start))


traced_filters: dict[str, Callable[..., Any]] = {
    "count": _length,
    "float": _number(float, 0.0),
    "int": _number(int, 0),
    "join": _join,
    "length": _length,
    "reverse": _reverse,
    "round": _round,
    "safe": to_text,
    "string": to_text,
    "sum": _sum,
    "title": _title,
    "tojson": traced_json,
    "trim": _trim,
}
traced_tests: dict[str, Callable[..., bool]] = {"sameas": _same}


def emitted(value: Any) -> TracedText:
    """Text that is written now: it belongs to the message whose turn is running."""
    owner = running().owner
    return TracedText(
        s if s.owner is not None else s._replace(owner=owner) for s in to_text(value).segments
    )
