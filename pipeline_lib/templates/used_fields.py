"""Which fields of a conversation a template did not write: exact, because pieces say their path."""

from collections.abc import Iterable, Sequence

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.tracing.expressions import SourcePath
from pipeline_lib.tracing.segments import TextSegment
from pipeline_lib.tracing.traced_values import REASONING_FIELDS, Message

SAID = ("content", *REASONING_FIELDS, "tool_calls")
"""Fields of a message that hold what it says."""


def is_said_by(path: SourcePath | None, message: int) -> bool:
    """Whether a piece is from what a message says, and not its role, name or kind."""
    if path is None or len(path) < 3 or path[-1] == "type":
        return False
    return path[:2] == ("messages", message) and path[2] in SAID


def unused_fields(
    messages: Sequence[Message], segments: Sequence[TextSegment], control: ControlTokens
) -> list[tuple[int, str]]:
    """(message, field) for each content, reasoning and tool call that is not in the text."""
    pieces: dict[int, list[TextSegment]] = {}
    for segment in segments:
        if segment.path is not None and segment.path[0] == "messages" and len(segment.path) > 1:
            pieces.setdefault(int(segment.path[1]), []).append(segment)
    return [
        (number, name)
        for number, message in enumerate(messages)
        for name in _unused(message, pieces.get(number, []), control)
    ]


def _unused(message: Message, own: list[TextSegment], control: ControlTokens) -> Iterable[str]:
    content = message.get("content")
    if isinstance(content, str) and not _written(content, _texts(own, ("content",)), control):
        yield "content"
    if isinstance(content, list) and not _all_touched(content, own, "content"):
        yield "content"
    reasoning = next((message[f] for f in REASONING_FIELDS if message.get(f) is not None), None)
    said = _texts(own, REASONING_FIELDS)
    if isinstance(reasoning, str) and not _written(reasoning, said, control):
        yield "reasoning"
    calls = message.get("tool_calls")
    if calls and not _all_touched(calls, own, "tool_calls"):
        yield "tool calls"


def _texts(own: list[TextSegment], names: Sequence[str]) -> list[str]:
    return [s.text for s in own if s.path and len(s.path) > 2 and s.path[2] in names]


def _written(wanted: str, pieces: list[str], control: ControlTokens) -> bool:
    """Whether the pieces hold all of a text but white space and control tokens."""
    left, start = [], 0
    for piece in pieces:
        place = wanted.find(piece, start)
        if place < 0 and piece not in wanted:
            return True  # written in another form, as JSON or in capitals: not told
        if place >= 0:
            left.append(wanted[start:place])
            start = place + len(piece)
    rest = "".join([*left, wanted[start:]])
    return not control.pattern.sub("", rest).strip()


def _all_touched(items: Sequence[object], own: list[TextSegment], name: str) -> bool:
    return all(any(_within(s.path, name, n) for s in own) for n in range(len(items)))


def _within(path: SourcePath | None, name: str, number: int) -> bool:
    """Whether a piece is of item ``number``, or of the whole list."""
    return path is not None and (path[2:] in ((), (name,)) or path[2:4] == (name, number))
