"""A conversation as a template sees it: the same shape, with traced strings in it.

Keys, numbers, truth values and lengths of lists are part of the conversation's *shape*; a skeleton
serves one shape, so nothing is recorded when a template asks for them.
"""

import json
from collections.abc import Mapping
from typing import Any

from jinja2 import Undefined

from pipeline_lib.tracing.asked_text import plain
from pipeline_lib.tracing.costs import read_deep
from pipeline_lib.tracing.expressions import (
    UNKNOWN,
    Expression,
    SourcePath,
    common_path,
    literal,
)
from pipeline_lib.tracing.segments import (
    KEYWORD,
    MESSAGE,
    ROLE,
    TextSegment,
    literal_segment,
)
from pipeline_lib.tracing.trace import TemplateRefused, computed, running
from pipeline_lib.tracing.traced_text import TracedText, as_traced, is_said, literal_text, paths_in

Message = dict[str, Any]  # a message as OpenAI writes it: role, content, tool_calls, ...
Keywords = dict[str, Any]  # what a template reads beside messages: any JSON value, by name

JSON_OPTIONS = {"ensure_ascii", "indent", "separators", "sort_keys"}
WIDEST_INDENT = 64
"""Characters between two values of JSON text."""

REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
"""Names of the field with an assistant's reasoning; the first that is there counts."""


class TracedMapping(dict[Any, Any]):  # as the conversation has it
    """A mapping of the conversation. ``message``: its index, if it is a message."""

    path: SourcePath
    message: int | None = None


class TracedList(list[Any]):  # as the conversation has it
    """A list of the conversation."""

    path: SourcePath


def reasoning_name(message: Message) -> str | None:
    """The field that has the reasoning of a message; None without."""
    return next((name for name in REASONING_FIELDS if message.get(name) is not None), None)


def with_reasoning_names(messages: list[Message]) -> list[Message]:
    """Messages whose reasoning has the two names that templates read, as transformers does it."""
    return [_with_reasoning_names(message) for message in messages]


def _with_reasoning_names(message: Message) -> Message:
    name = reasoning_name(message)
    if name is None:
        return message
    return {"thinking": message[name], **message, "reasoning_content": message[name]}


def traced_messages(messages: list[Message]) -> TracedList:
    """The messages of a conversation, each knowing its index."""
    traced = traced_value(messages, ("messages",))
    for index, message in enumerate(traced):
        message.message = index
    return traced  # type: ignore[no-any-return]


def traced_value(value: Any, path: SourcePath) -> Any:
    """A value of the conversation with traced strings; ``path`` says where it stands."""
    if isinstance(value, str):
        return TracedText((_source_segment(value, path),))
    if isinstance(value, dict):
        return _traced_mapping(value, path)
    if isinstance(value, list | tuple):
        items = TracedList(traced_value(v, (*path, i)) for i, v in enumerate(value))
        items.path = path
        return items
    return value


def _source_segment(text: str, path: SourcePath) -> TextSegment:
    if len(path) == 3 and path[0] == "messages" and path[2] == "role":
        return TextSegment(text, ROLE, path, None, literal(text))
    return TextSegment(text, MESSAGE, path, None, Expression("source", (path,)))


def _traced_mapping(value: Mapping[str, Any], path: SourcePath) -> TracedMapping:
    """Names of a message's own fields are trusted, names inside of them are data."""
    origin = ROLE if len(path) == 2 and path[0] == "messages" else MESSAGE
    mapping = TracedMapping()
    for key, inner in value.items():
        if not isinstance(key, str):
            raise TemplateRefused("a key that is not a string", type(key).__name__)
        place = (*path, key)
        name = TracedText((TextSegment(key, origin, place, None, literal(key)),))
        mapping[name] = traced_value(inner, place)
    mapping.path = path
    return mapping


def traced_keywords(keywords: Keywords) -> Keywords:
    """The template's keywords (BOS, EOS, dates, switches): trusted, part of the recipe."""
    return {
        name: TracedText((literal_segment(value, KEYWORD),)) if isinstance(value, str) else value
        for name, value in keywords.items()
    }


class TracedLength:
    """The length of a string of the conversation: comparisons are recorded, not the number."""

    def __init__(self, text: TracedText) -> None:
        self._text = text

    def _number(self) -> int:
        return str.__len__(self._text)

    def _ask(self, question: str, answer: bool, other: object) -> bool:
        if isinstance(other, TracedLength):
            other = int(other)
        return bool(self._text.ask(f"length {question}", answer, other))

    def __gt__(self, other: Any) -> bool:
        return self._ask(">", self._number() > other, other)

    def __lt__(self, other: Any) -> bool:
        return self._ask("<", self._number() < other, other)

    def __ge__(self, other: Any) -> bool:
        return self._ask(">=", self._number() >= other, other)

    def __le__(self, other: Any) -> bool:
        return self._ask("<=", self._number() <= other, other)

    def __eq__(self, other: object) -> bool:
        return self._ask("==", self._number() == other, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self > 0

    def __int__(self) -> int:
        return len(self._text)

    __index__ = __int__
    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> Any:
        return int(self) + other

    def __sub__(self, other: Any) -> Any:
        return int(self) - other

    def __radd__(self, other: Any) -> Any:
        return other + int(self)

    def __rsub__(self, other: Any) -> Any:
        return other - int(self)


def to_text(value: Any) -> TracedText:
    """What a template writes for a value."""
    if isinstance(value, str):
        return as_traced(value)
    if isinstance(value, TracedLength):
        value = int(value)
    if value is None or isinstance(value, bool | int | float):
        return TracedText((literal_segment(str(value), ROLE),))  # a value is part of the shape
    if isinstance(value, Undefined):
        return literal_text(str(value))
    text = str(plain(read_deep(value)))
    path = getattr(value, "path", None) or common_path(paths_in(value))
    running().give_up_compiling("text of a container")
    return TracedText((TextSegment(text, MESSAGE, path, None, UNKNOWN),))


def json_text(value: Any, **options: Any) -> str:
    """JSON as chat templates write it: no escapes for HTML, no ASCII escapes unless asked for."""
    return json.dumps(value, **{"ensure_ascii": False, **options})


def traced_json(value: Any, **options: Any) -> TracedText:
    """The JSON text of a value, with the origin of the value."""
    if is_said(options):
        raise TemplateRefused("operation", "JSON in a form that the conversation gives")
    _check_form(options)
    options = {name: plain(option) for name, option in options.items()}
    text = json_text(plain(value), **options)
    asked = tuple(sorted((k, _hashable(v)) for k, v in options.items() if v is not None))
    if isinstance(value, TracedText):
        return value._rewritten(text, computed("json", value.expression, asked))
    path = getattr(value, "path", None)
    if path is not None:
        made = Expression("json_source", (path, asked))
        return TracedText((TextSegment(text, MESSAGE, path, None, made),))
    if value is None or isinstance(value, bool | int | float):
        return TracedText((literal_segment(text, MESSAGE),))
    running().give_up_compiling("JSON of a value that the template built")
    path = common_path(paths_in(value))
    return TracedText((TextSegment(text, MESSAGE, path, None, UNKNOWN),))


def _check_form(options: Keywords) -> None:
    """JSON is written in the ways of ``json.dumps``, and not much wider than it is."""
    sizes = [options.get("indent"), *(options.get("separators") or ())]
    wide = any((len(s) if isinstance(s, str) else int(s or 0)) > WIDEST_INDENT for s in sizes)
    if wide or not options.keys() <= JSON_OPTIONS:
        raise TemplateRefused("operation", "JSON in an unknown form")


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
