"""The shape of a conversation: all of it but its strings."""

from collections.abc import Hashable
from typing import Any

from pipeline_lib.tracing.expressions import SourcePath
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.traced_values import Keywords, Message, reasoning_name


def shape_of(given: ChatInput) -> tuple[Hashable, list[str]]:
    """(shape, strings): roles, keys, types, numbers; and the strings in the order of reading."""
    strings: list[str] = []
    shape = tuple([_message_shape(message, strings) for message in given.messages])
    tools = None if given.tools is None else _shape(given.tools, strings)
    return (shape, tools, _shape(given.keywords, []), _values(given.keywords)), strings


def _values(keywords: Keywords) -> Hashable:
    """Keywords count by value: they are part of the recipe."""
    return repr(sorted(keywords.items()))


def _message_shape(message: Message, strings: list[str]) -> Hashable:
    content = message.get("content")
    if len(message) == 2 and type(content) is str and "role" in message:
        strings.append(content)
        return message["role"], next(iter(message)) == "role"
    return tuple([(key, v if key == "role" else _shape(v, strings)) for key, v in message.items()])


def _shape(value: Any, strings: list[str]) -> Hashable:
    if type(value) is str:
        strings.append(value)
        return "text"
    if type(value) is dict:
        return "mapping", tuple([(key, _shape(v, strings)) for key, v in value.items()])
    if type(value) in (list, tuple):
        return "list", tuple([_shape(v, strings) for v in value])
    return type(value).__name__, repr(value)


def places_of(given: ChatInput) -> dict[SourcePath, int]:
    """Path of each string -> its number among the strings of ``shape_of``.

    Reasoning has two names more, see ``with_reasoning_names``.
    """
    order = [
        ("messages", n, key) for n, m in enumerate(given.messages) for key in m if key != "role"
    ]
    found = [path for top in order for path in _paths(_at(given.messages, top[1:]), top)]
    found += _paths(given.tools, ("tools",))
    places = {path: place for place, path in enumerate(found)}
    for number, message in enumerate(given.messages):
        _add_reasoning_names(message, ("messages", number), places)
    return places


def _at(messages: list[Message], steps: SourcePath) -> Any:
    number, key = steps
    return messages[int(number)][str(key)]


def _paths(value: Any, path: SourcePath) -> list[SourcePath]:
    """The paths of all strings in a value, in the order of ``_shape``."""
    if type(value) is str:
        return [path]
    if type(value) is dict:
        return [found for key, v in value.items() for found in _paths(v, (*path, key))]
    if type(value) in (list, tuple):
        return [found for number, v in enumerate(value) for found in _paths(v, (*path, number))]
    return []


def _add_reasoning_names(message: Message, path: SourcePath, places: dict[SourcePath, int]) -> None:
    first = reasoning_name(message)
    if first is None or (*path, first) not in places:
        return
    place = places[(*path, first)]
    for name in ("reasoning_content", "thinking"):
        if name == "reasoning_content" or name not in message:
            places[(*path, name)] = place
