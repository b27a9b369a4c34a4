"""Which fields of a conversation a template did not write: exact, because pieces say their path."""

from collections.abc import Hashable, Iterable, Sequence

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.derived import Derivation
from pipeline_lib.tracing.expressions import Expression, SourcePath
from pipeline_lib.tracing.segments import NO_TEXT, TextSegment
from pipeline_lib.tracing.trace import traced
from pipeline_lib.tracing.traced_text import TracedText
from pipeline_lib.tracing.traced_values import (
    REASONING_FIELDS,
    Message,
    reasoning_name,
    traced_value,
)

SAID = ("content", *REASONING_FIELDS, "tool_calls")
"""Fields of a message that hold what it says."""


def is_said_by(path: SourcePath | None, message: int) -> bool:
    """Whether a piece is from what a message says, and not its role, name or kind."""
    if path is None or len(path) < 3 or path[-1] == "type":
        return False
    return path[:2] == ("messages", message) and path[2] in SAID


def unused_fields(
    messages: Sequence[Message], found: Derivation, control: ControlTokens
) -> list[tuple[int, str]]:
    """(message, field) for each content, reasoning and tool call that is not in the text."""
    pieces: dict[int, list[TextSegment]] = {}
    for segment in found.rendering.segments:
        if segment.path and segment.path[0] == "messages" and len(segment.path) > 1:
            pieces.setdefault(int(segment.path[1]), []).append(segment)
    return [
        (number, name)
        for number, message in enumerate(messages)
        for name in _Fields(number, pieces.get(number, []), found, control).unused(message)
    ]


class _Fields:
    """The fields of one message, and the pieces that are written of them."""

    def __init__(
        self, number: int, own: list[TextSegment], found: Derivation, control: ControlTokens
    ) -> None:
        self._number, self._own, self._found, self._control = number, own, found, control

    def unused(self, message: Message) -> Iterable[str]:
        content = message.get("content")
        if isinstance(content, str) and not self._is_written(content, ("content",)):
            yield "content"
        if isinstance(content, list) and not _all_touched(content, self._own, "content"):
            yield "content"
        name = reasoning_name(message)
        reasoning = message[name] if name else None
        if isinstance(reasoning, str) and not self._is_written(reasoning, REASONING_FIELDS):
            yield "reasoning"
        calls = message.get("tool_calls")
        if calls and not _all_touched(calls, self._own, "tool_calls"):
            yield "tool calls"

    def _is_written(self, wanted: str, names: Sequence[str]) -> bool:
        """Whether a text is written; where the strings decide, a skeleton asks again or is none."""
        pieces = [s for s in self._own if s.path and len(s.path) > 2 and s.path[2] in names]
        if not pieces:
            return self._strips_to(wanted, names[0], NO_TEXT)
        whole = all(map(_is_whole, pieces))
        if not whole and not self._strips_to(wanted, names[0], pieces):
            self._found.give_up_compiling("what is written of a text depends on it")
        return _written(wanted, [piece.text for piece in pieces], self._control)

    def _strips_to(self, wanted: str, name: str, text: Iterable[TextSegment]) -> bool:
        """Whether a field is a text, white space apart: a question that a skeleton asks, too."""
        with traced(self._found.rendering.trace):
            field = traced_value(wanted, ("messages", self._number, name))
            return bool(field.strip() == TracedText(text).strip())


def _is_whole(piece: TextSegment) -> bool:
    """Whether a piece is a text of the conversation, but for what is stripped at its ends."""
    made: Hashable = piece.expression
    while isinstance(made, Expression) and made.operation == "call":
        method, made, arguments = made.operands
        if arguments or method not in ("strip", "lstrip", "rstrip"):
            return False
    return isinstance(made, Expression) and made.operation == "source"


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
