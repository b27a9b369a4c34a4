"""Strings that remember where each of their characters comes from.

Templates get these instead of plain strings. What a method returns has exact origins; what a method
asks is recorded as a guard. A method that is not here is refused: it would lose the origins.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from string import Formatter
from typing import SupportsIndex

from pipeline_lib.tracing.asked_text import AskedText, operands, plain
from pipeline_lib.tracing.expressions import (
    UNKNOWN,
    Expression,
    SourcePath,
    common_path,
    literal,
)
from pipeline_lib.tracing.segments import (
    MESSAGE,
    NO_TEXT,
    ORIGIN_UNKNOWN,
    Segments,
    TextSegment,
    cut,
    literal_segment,
    single_origin,
)
from pipeline_lib.tracing.text_methods import CHANGES
from pipeline_lib.tracing.trace import TemplateRefused, computed, running


class TracedText(AskedText):
    """A string whose parts and changes remember their origins, too."""

    # Whole strings

    def __add__(self, other: str) -> TracedText:
        return TracedText(self.segments + as_traced(other).segments)

    def __radd__(self, other: str) -> TracedText:
        return TracedText(as_traced(other).segments + self.segments)

    def __mul__(self, times: SupportsIndex) -> TracedText:
        if not self.fixed:
            raise TemplateRefused("operation", "a string of the conversation is repeated")
        count = max(int(times), 0)
        running().spend(count * str.__len__(self), count * len(self.segments))
        return TracedText(self.segments * count)

    __rmul__ = __mul__

    def __mod__(self, values: object) -> str:
        raise TemplateRefused("operation", "formatting with %")

    def __iter__(self) -> Iterator[str]:
        self.exact()
        return iter([TracedText(cut(self.segments, i, i + 1)) for i in range(len(self.plain))])

    # Parts

    def __getitem__(self, key: SupportsIndex | slice) -> TracedText:
        if isinstance(key, slice):
            start, stop, step = key.indices(str.__len__(self))
            if step != 1:
                raise TemplateRefused("operation", "slice with a step")
            ends = tuple(
                None if end is None else operator.index(end) for end in (key.start, key.stop)
            )
            whole = computed("slice", self.expression, *ends)
            return self._part(start, max(start, stop), whole)
        self.exact()
        place = range(len(self.plain))[key]
        return TracedText(cut(self.segments, place, place + 1))

    def _part(self, start: int, stop: int, expression: Expression) -> TracedText:
        """The characters ``start`` to ``stop``, computed again by ``expression``."""
        one = single_origin(self.segments)
        if self.fixed:
            return TracedText(cut(self.segments, start, stop))
        if one is not None:
            part = TextSegment(self.plain[start:stop], one.origin, one.path, None, expression)
            return TracedText((part,))
        if not (start == 0 and stop == len(self.plain)):
            running().give_up_compiling("part of a string of several origins")
        return TracedText(cut(self.segments, start, stop))

    def _strip(self, method: str, characters: str | None) -> TracedText:
        segments = self._strip_ends(method, characters)
        if segments is not None:
            return TracedText(segments)
        text = self.plain
        wanted = None if characters is None else plain(characters)
        running().read(2 * str.__len__(text) * (1 if wanted is None else len(wanted)))
        start = len(text) - len(text.lstrip(wanted)) if method != "rstrip" else 0
        stop = len(text.rstrip(wanted)) if method != "lstrip" else len(text)
        expression = self._call(method, *(() if characters is None else (characters,)))
        return self._part(start, max(start, stop), expression)

    def _strip_ends(self, method: str, characters: str | None) -> Segments | None:
        """Strip a string of several origins at its ends only; None where that does not do."""
        if self.fixed or single_origin(self.segments) is not None:
            return None
        segments = list(self.segments)
        for side, place in (("lstrip", 0), ("rstrip", -1)):
            if method in ("strip", side):
                end = TracedText((segments[place],))._strip(side, characters)
                whole = end.plain == segments[place].text
                if not end.plain or (segments[place].fixed and not whole):
                    return None
                end.ask("bool", True)
                segments[place] = end.segments[0]._replace(owner=segments[place].owner)
        return tuple(segments)

    def strip(self, chars: str | None = None, /) -> TracedText:
        return self._strip("strip", chars)

    def lstrip(self, chars: str | None = None, /) -> TracedText:
        return self._strip("lstrip", chars)

    def rstrip(self, chars: str | None = None, /) -> TracedText:
        return self._strip("rstrip", chars)

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:  # type: ignore[override]
        return self._split("split", sep, int(maxsplit))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:  # type: ignore[override]
        return self._split("rsplit", sep, int(maxsplit))

    def _split(self, method: str, sep: str | None, most: int) -> list[str]:
        running().read(str.__len__(self), self.plain.count(plain(sep)) if sep else 0)
        parts = getattr(self.plain, method)(plain(sep), most)
        return self._items(method, parts, len(plain(sep) or ""), sep, most)

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        return self._partition("partition", sep)

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        return self._partition("rpartition", sep)

    def _partition(self, method: str, sep: str) -> tuple[str, str, str]:
        parts = getattr(self.plain, method)(plain(sep))
        self.ask("contains", bool(parts[1]), sep)
        before, middle, after = self._items(method, parts, 0, sep)
        return before, middle, after

    def _items(self, method: str, parts: Iterable[str], gap: int, *arguments: object) -> list[str]:
        """The parts that a method gave, in order; at least ``gap`` characters between two."""
        parts = list(parts)
        self.ask(f"items of {method}", len(parts), *arguments)
        whole, items, start = self._call(method, *arguments), list[str](), 0
        for number, part in enumerate(parts):
            start = self.plain.find(part, start)
            expression = computed("item", whole, number)
            items.append(self._part(start, start + len(part), expression))
            start += len(part) + gap
        return items

    def splitlines(self, keepends: bool = False) -> list[str]:  # type: ignore[override]
        return self._items("splitlines", self.plain.splitlines(keepends), 0, keepends)

    def removeprefix(self, prefix: str, /) -> TracedText:
        if not self.startswith(prefix):
            return self
        start = str.__len__(prefix)
        return self._part(start, str.__len__(self), self._call("removeprefix", prefix))

    def removesuffix(self, suffix: str, /) -> TracedText:
        if not self.endswith(suffix):
            return self
        stop = str.__len__(self) - str.__len__(suffix)
        return self._part(0, stop, self._call("removesuffix", suffix))

    # New text

    def _call(self, method: str, *arguments: object) -> Expression:
        return computed("call", method, self.expression, operands(arguments))

    def _rewritten(self, text: str, expression: Expression) -> TracedText:
        """New text of the origin of this string."""
        one = single_origin(self.segments)
        if self.fixed and one is not None:
            return TracedText((literal_segment(text, one.origin),))
        if one is not None:
            return TracedText((TextSegment(text, one.origin, one.path, None, expression),))
        running().give_up_compiling("new text from a string of several origins")
        path = common_path(paths_in(self))
        return TracedText((TextSegment(text, MESSAGE, path, None, UNKNOWN),))

    def in_form(self, text: str) -> TracedText:
        """Text that was made from this string in a way that a skeleton can not repeat."""
        return self._rewritten(text, UNKNOWN)

    def replace(self, old: str, new: str, count: SupportsIndex | None = -1, /) -> TracedText:  # type: ignore[override]
        if not as_traced(new).fixed or (self.fixed and not as_traced(old).fixed):
            raise TemplateRefused("operation", "replace with a string of the conversation")
        times = -1 if count is None else int(count)
        running().spend((self.plain.count(plain(old)) + 1) * str.__len__(new))
        text = self.plain.replace(plain(old), plain(new), times)
        if text == self.plain and not self.ask("contains", plain(old) in self.plain, old):
            return self
        return self._rewritten(text, self._call("replace", old, new, times))

    def join(self, iterable: Iterable[str], /) -> TracedText:
        segments: list[TextSegment] = []
        for number, item in enumerate(iterable):
            segments.extend(self.segments if number else ())
            segments.extend(as_traced(item).segments)
        return TracedText(segments or NO_TEXT)

    def format(self, *given: object, **named: object) -> TracedText:
        """A text of the template with strings and numbers in the places of ``{}`` or ``{name}``."""
        if not self.fixed:
            raise TemplateRefused("operation", "a string of the conversation as a format")
        values = dict(zip(map(str, range(len(given))), given, strict=True)) | named
        segments, numbers = list[TextSegment](), itertools.count()
        for text, name, form, conversion in Formatter().parse(self.plain):
            segments.append(literal_segment(text))
            if name is not None:
                value = values.get(name or str(next(numbers)))
                if form or conversion or not isinstance(value, str | int | float):
                    raise TemplateRefused("operation", "formatting beyond {}")
                shown = value if isinstance(value, str) else str(value)
                segments.extend(as_traced(shown).segments)
        return TracedText(segments or NO_TEXT)


def _change(method: str) -> Callable[[TracedText], TracedText]:
    def change(self: TracedText) -> TracedText:
        return self._rewritten(getattr(self.plain, method)(), self._call(method))

    return change


for _name in CHANGES:
    setattr(TracedText, _name, _change(_name))


def literal_text(text: str) -> TracedText:
    """A text of the template itself."""
    return TracedText((literal_segment(text),))


def paths_in(value: object) -> Iterator[SourcePath]:
    """Where in the conversation the strings of a value stand; values that a template built, too."""
    if isinstance(value, TracedText):
        yield from (s.path for s in value.segments if s.path is not None)
    elif isinstance(value, dict):
        yield from (path for pair in value.items() for path in paths_in(pair))
    elif isinstance(value, list | tuple):
        yield from (path for item in value for path in paths_in(item))


def is_said(value: object) -> bool:
    """Whether a value has strings of the conversation in it."""
    return next(paths_in(value), None) is not None


def as_traced(text: str) -> TracedText:
    """The string itself; one without origins counts as data and is never compiled."""
    if isinstance(text, TracedText):
        return text
    if text:
        running().give_up_compiling("string of unknown origin")
    return TracedText((TextSegment(text, ORIGIN_UNKNOWN, None, None, literal(text)),))
