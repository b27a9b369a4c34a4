"""What must not stand in a turn that is learned, nor before it: the text of others."""

from collections.abc import Iterable, Sequence

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.derived import TrainedSpan
from pipeline_lib.templates.used_fields import is_said_by
from pipeline_lib.tracing.segments import ORIGIN_UNKNOWN, Segments, TextSegment, places_of
from pipeline_lib.tracing.trace import TemplateRefused
from pipeline_lib.tracing.traced_values import Message

ORDER = "the text is not in the order of the conversation"
INSTRUCTIONS = ("system", "developer")
"""Roles whose text may stand at another place than its own."""


def refuse_foreign(segments: Iterable[TextSegment], message: int) -> None:
    """Data in a turn is the turn's own: not of another message, of tools, or of unknown origin."""
    for segment in segments:
        path = segment.path
        foreign = path is not None and path[:2] != ("messages", message)
        unknown = segment.origin == ORIGIN_UNKNOWN and segment.text
        if not segment.trusted and (foreign or unknown):
            raise TemplateRefused("text of another message inside an assistant turn")


def refuse_openers(
    span: TrainedSpan, segments: Segments, control: ControlTokens, openers: frozenset[str]
) -> None:
    """In a turn the template writes no token that opens a turn of others, but as its end."""
    text = "".join(s.text if s.trusted else "\0" * len(s.text) for s in segments)
    for match in control.pattern.finditer(text, span.start, span.stop):
        if match.group() in openers and match.end() != span.stop:
            raise TemplateRefused("the start of another turn inside an assistant turn")


def is_in_order(segments: Segments, messages: Sequence[Message], span: TrainedSpan) -> bool:
    """Whether before a turn stands what was said before it, and nothing that is said later."""
    places = list(places_of(segments))
    before = [s for low, high, s in places if _is_before(low, high, s, span)]
    after = [s for low, high, s in places if not _is_before(low, high, s, span)]
    said = {n for n in range(len(messages)) if any(is_said_by(s.path, n) for s in before)}
    later = {n for n in range(len(messages)) if any(is_said_by(s.path, n) for s in after)}
    return all(
        number in said or number not in later
        if number < span.message
        else number not in said or (number == span.message and _leads_in(before, number))
        for number, fields in enumerate(messages)
        if fields.get("role") not in INSTRUCTIONS
    )


def _is_before(low: int, high: int, segment: TextSegment, span: TrainedSpan) -> bool:
    """Whether a text stands before a turn; an empty one at its border, if its message does."""
    if high < span.start or low < high:
        return high <= span.start
    number = (segment.path or ())[1:2]
    return high == span.start and number < (span.message,)


def _leads_in(before: Iterable[TextSegment], message: int) -> bool:
    """Whether what a turn says before its start stands in the turn: there it ends the prompt."""
    return all(s.owner == message for s in before if is_said_by(s.path, message))
