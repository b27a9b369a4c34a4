"""Tool calls and their results, in the shapes of the wild, as OpenAI writes them. Pure.

A call is ``{"type": "function", "id": ..., "function": {"name": ..., "arguments": ...}}``. Keys
keep their order, and arguments stay what they are: an object, or a text.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, cast

from pipeline_lib.chat.json_values import (
    checked_json,
    checked_text,
    from_json,
    has_nulls,
    without_nulls,
)
from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.turn_fields import blank
from pipeline_lib.records import CalledFunction, JsonObject, ToolCall, Turn

CALLS, OLD_CALL = "tool_calls", "function_call"
RESULT_KEYS: tuple[Literal["name"], Literal["tool_call_id"]] = ("name", "tool_call_id")
"""The fields of a tool's turn beside its content."""
NULLS = "null arguments left out"
NO_ARGUMENTS = "a tool call without arguments"
_ARGUMENTS = ("arguments", "parameters", "args")
_TYPES = ("function", "function_call", "tool_call")


def calls_of(message: Mapping[str, Any], notes: dict[str, None]) -> list[ToolCall]:
    """The calls of an assistant's message: of ``tool_calls``, or the one of ``function_call``.

    Notes name what is not read. ``Reject`` for a call without a name, for arguments that are
    neither an object nor text, and for two fields with different calls.
    """
    if message.get(CALLS) is None and message.get(OLD_CALL) is None:
        return []
    held = [message[key] for key in (CALLS, OLD_CALL) if not blank(message.get(key))]
    found = [_read_calls(value, notes) for value in held]
    if len(found) == 2 and [c["function"] for c in found[0]] != [c["function"] for c in found[1]]:
        raise Reject("two different tool calls of one turn")
    return found[0] if found else []


def calls_in_content(content: Any, notes: dict[str, None]) -> list[ToolCall]:
    """The calls of a message whose content is the call, ``{"name": ..., "arguments": ...}``, as
    JSON or as an object; none if its content is anything else."""
    try:
        value = from_json(content, "") if isinstance(content, str | bytes) else content
    except Reject:
        return []
    items = value if isinstance(value, list) else [value]
    named = all(isinstance(i, Mapping) and "name" in i and "arguments" in i for i in items)
    return [_read_call(item, notes) for item in items] if named else []


def add_result_keys(turn: Turn, message: Mapping[str, Any]) -> None:
    """Give a tool's turn the ``name`` and ``tool_call_id`` of its message, if any."""
    for key in RESULT_KEYS:
        if not blank(message.get(key)):
            turn[key] = _text(message[key], f"{key} of a tool turn")


def _read_calls(value: Any, notes: dict[str, None]) -> list[ToolCall]:
    if isinstance(value, str | bytes):
        value = from_json(value, "tool calls are text that is not JSON")
    items = [value] if isinstance(value, Mapping) else value
    if not hasattr(items, "__iter__"):
        raise Reject(f"tool calls are not a list ({type(items).__name__})")
    return [_read_call(item, notes) for item in items if not blank(item)]


def _read_call(given: Any, notes: dict[str, None]) -> ToolCall:
    given = _object(given, "a tool call")
    if not blank(given.get("type")) and given["type"] not in _TYPES:
        raise Reject(f"a tool call of the type {str(given['type'])[:20]!r} is not read")
    nested = not blank(given.get("function"))
    function = _object(given["function"], "the function of a tool call") if nested else given
    outer = ("type", "id", "function")
    key = _argument_key(function, () if nested else outer)
    used = ("name", key)
    notes |= dict.fromkeys(_unread(given, outer if nested else (*outer, *used)))
    notes |= dict.fromkeys(_unread(function, used) if nested else ())
    call: JsonObject = {"type": "function"}
    if not blank(given.get("id")):
        call["id"] = _text(given["id"], "id of a tool call")
    call["function"] = _function(function, key, notes)
    return cast(ToolCall, _in_order(call, [*given] if nested else []))


def _in_order(made: JsonObject, keys: list[str]) -> JsonObject:
    """An object in the order of some keys; what is not among them comes first."""
    return dict(sorted(made.items(), key=lambda item: item[0] in keys and keys.index(item[0]) + 1))


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if isinstance(value, str | bytes):
        value = from_json(value, f"{what} is text that is not JSON")
    if not isinstance(value, Mapping):
        raise Reject(f"{what} is not an object ({type(value).__name__})")
    return value


def _argument_key(function: Mapping[str, Any], beside: Iterable[str]) -> str:
    """The key of the arguments; ``Reject`` if they may stand under a key that is not known."""
    found = next((key for key in _ARGUMENTS if function.get(key) is not None), None)
    others = [*_unread(function, (*beside, "name"))] if found is None else []
    if others:
        raise Reject(f"{NO_ARGUMENTS}, but with other keys")
    return found or "arguments"


def _unread(given: Mapping[str, Any], used: Iterable[str]) -> Iterator[str]:
    for key in given:
        if key not in used and not blank(given[key]):
            yield f"tool call key {str(key)[:40]!r} is not read"


def _function(function: Mapping[str, Any], key: str, notes: dict[str, None]) -> CalledFunction:
    if blank(function.get("name")):
        raise Reject("a tool call without a name")
    name = _text(function["name"], "name of a tool call")
    arguments = _arguments(function.get(key), notes)
    order = ["arguments" if k == key else k for k in function]
    return cast(CalledFunction, _in_order({"name": name, "arguments": arguments}, order))


def _arguments(value: Any, notes: dict[str, None]) -> JsonObject | str:
    if value is None:
        notes[NO_ARGUMENTS] = None
        return {}
    if isinstance(value, str):
        return checked_text(value, "arguments of a tool call")
    if not isinstance(value, Mapping):
        raise Reject(f"arguments of a tool call are no object ({type(value).__name__})")
    if has_nulls(value):
        notes[NULLS] = None
        value = without_nulls(value)
    found: JsonObject = checked_json(value, "an argument of a tool call")
    return found


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise Reject(f"{what} is not text ({type(value).__name__})")
    return checked_text(value, what)
