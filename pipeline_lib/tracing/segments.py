"""Segments: pieces of rendered text that remember where they come from."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipeline_lib.tracing.expressions import UNKNOWN, Expression, SourcePath, joined, literal

LITERAL, ROLE, KEYWORD, MESSAGE, ORIGIN_UNKNOWN = "literal", "role", "keyword", "message", "unknown"
TRUSTED = frozenset((LITERAL, ROLE, KEYWORD))
"""Origins whose text may hold control tokens: the template itself, roles, and its keywords."""


class TextSegment(NamedTuple):
    """A piece of text of one origin.

    ``origin``: one of the names above. ``path``: where in the conversation, if it is from there.
    ``owner``: the index of the message whose turn was running when it was written, else None.
    """

    text: str
    origin: str
    path: SourcePath | None
    owner: int | None
    expression: Expression

    @property
    def trusted(self) -> bool:
        """Whether control tokens in it are control tokens."""
        return self.origin in TRUSTED

    @property
    def fixed(self) -> bool:
        """Whether it is a text of the template, the same for all conversations."""
        return self.expression.operation == "literal"

    def part(self, start: int, stop: int) -> "TextSegment":
        """The characters ``start`` to ``stop``; a part of data can not be computed again."""
        text = self.text[start:stop]
        if text == self.text:
            return self
        return self._replace(text=text, expression=literal(text) if self.fixed else UNKNOWN)


Segments = tuple[TextSegment, ...]


def literal_segment(text: str, origin: str = LITERAL) -> TextSegment:
    """A piece that is the same for all conversations."""
    return TextSegment(text, origin, None, None, literal(text))


NO_TEXT: Segments = (literal_segment(""),)


def tidy(segments: Iterable[TextSegment]) -> Segments:
    """Without empty fixed pieces; at least one piece remains.

    Empty pieces of data stay: that they are empty is something to ask of the next conversation.
    """
    kept = tuple(s for s in segments if s.text or not s.fixed)
    return kept or NO_TEXT


def text_of(segments: Iterable[TextSegment]) -> str:
    """The text of all pieces."""
    return "".join([s.text for s in segments])


def expression_of(segments: Iterable[TextSegment]) -> Expression:
    """How the text of all pieces is computed."""
    return joined([s.expression for s in segments])


def single_origin(segments: Segments) -> TextSegment | None:
    """A piece that tells the origin and path of all, or None if they differ."""
    if len({(s.origin, s.path) for s in segments}) == 1:
        return segments[0]
    return None


def cut(segments: Segments, start: int, stop: int) -> Segments:
    """The pieces of the characters ``start`` to ``stop``."""
    found, position = [], 0
    for segment in segments:
        low, high = max(start - position, 0), max(stop - position, 0)
        found.append(segment.part(low, high))
        position += len(segment.text)
    return tidy(s for s in found if s.text or s.expression != UNKNOWN)


def same_beginning(beginning: Sequence[TextSegment], whole: Sequence[TextSegment]) -> bool:
    """Whether the first pieces of ``whole`` are ``beginning``, for any strings of a conversation;
    its last piece, if fixed, may be the front of a longer one."""
    for number, segment in enumerate(beginning):
        if number >= len(whole):
            return False
        other = whole[number]
        last = number == len(beginning) - 1 and segment.fixed and other.fixed
        if segment.expression != other.expression and not (
            last and other.text.startswith(segment.text)
        ):
            return False
    return True


def places_of(segments: Iterable[TextSegment]) -> Iterator[tuple[int, int, TextSegment]]:
    """(start, stop, segment), in characters of the whole text."""
    start = 0
    for segment in segments:
        yield start, start + len(segment.text), segment
        start += len(segment.text)
