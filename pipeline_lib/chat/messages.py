"""Messages of data sets, in any of their usual shapes, to turns. Pure.

A message names its speaker and its text under one of a few keys. Its text may come in parts, and
its reasoning in a field of its own. What is not read is named in a note, and what can not be told
in turns of text is a ``Reject`` with its name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline_lib.chat.conversation import Turns, unknown_role
from pipeline_lib.chat.json_values import from_json
from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.thoughts import read_block, thought
from pipeline_lib.chat.tool_calls import (
    CALLS,
    OLD_CALL,
    RESULT_KEYS,
    add_result_keys,
    calls_in_content,
    calls_of,
)
from pipeline_lib.chat.tool_schemas import read_tools
from pipeline_lib.chat.turn_fields import blank, other_form, plain_name, read_fields
from pipeline_lib.records import ToolCall, Turn

ALIASES = {
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "chatgpt": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
    "ipython": "tool",
    "environment": "tool",
    "tool_response": "tool",
    "function_response": "tool",
    "tool_result": "tool",
}
"""Names of roles in data sets, in lower case; any other name is a rejection."""

_ROLE_KEYS = ("role", "from")
_CONTENT_KEYS = ("content", "value", "text")
_THOUGHT_KEYS = ("reasoning_content", "reasoning", "thinking", "thought")
_CALL_ROLES = ("function_call", "tool_call")
_TEXT_PARTS = ("text", "input_text", "output_text")
_THOUGHT_PARTS = ("thinking", "reasoning")
_TOOL_PARTS = ("tool_use", "tool_result", "tool_call", "function_call", "server_tool_use")
JOINED = "text parts joined by newlines"
OTHER_SYSTEM = "a second system prompt is not used"


class _Content(NamedTuple):
    text: str
    reasoning: str = ""
    notes: tuple[str, ...] = ()


def read_turns(messages: Any, *, system: str | None = None, tools: Any = None) -> Turns:
    """Turns from a list of messages, or from one mapping of lists, under the usual keys.

    Keys: ``role`` or ``from``; ``content``, ``value`` or ``text``; for reasoning, which goes in
    front of the answer (see ``thought``), ``reasoning_content``, ``reasoning``, ``thinking`` or
    ``thought``. Fields with null or nothing in them count as absent. Role names go through
    ``ALIASES``. A null content becomes a blank turn, where ``tidy`` cuts. A content in parts is the
    text of its parts. The list, or single messages, may be JSON in a string. ``system``: a system
    prompt that the row has outside its messages. ``tools``: the schemas of the tools that it offers
    (see ``read_tools``).

    Tool calls are read from ``tool_calls`` or ``function_call``, or from the content of a message
    whose role is that of a call. ``weight: 0``, ``train: false`` and the like give a turn ``learn``
    false: no loss falls on it. Other fields leave a note. ``Reject`` without messages; for an
    unknown role; for tool calls in other forms; for pictures and other contents that are not text;
    and for two different texts of one reasoning.
    """
    notes = dict[str, None]()
    turns = [_read_turn(message, notes) for message in _as_list(messages)]
    if system and system.strip():
        if turns[0]["role"] != "system":
            turns.insert(0, Turn(role="system", content=system))
        elif turns[0]["content"].strip() not in ("", system.strip()):
            notes[OTHER_SYSTEM] = None
    offered = read_tools(tools, notes)
    return Turns(turns, notes, offered)


def _as_list(messages: Any) -> Sequence[Any]:
    if isinstance(messages, str | bytes):
        messages = from_json(messages, "turns are one string that is not JSON")
    if messages is None or (hasattr(messages, "__len__") and len(messages) == 0):
        raise Reject("no turns")
    if not hasattr(messages, "__iter__"):
        raise Reject(f"turns are not a list ({type(messages).__name__})")
    if isinstance(messages, Mapping):  # a sequence of structs may come as a struct of sequences
        columns = {key: values for key, values in messages.items() if values is not None}
        if not all(_is_list(values) for values in columns.values()):
            raise Reject("turns are one message, not a list of messages")
        if len({len(values) for values in columns.values()}) != 1:
            raise Reject("lists of a turn differ in length")
        rows = zip(*columns.values(), strict=True)
        found: list[Any] = [dict(zip(columns, row, strict=True)) for row in rows]
    else:
        found = list(messages)
    if not found:
        raise Reject("no turns")
    return found


def _is_list(values: Any) -> bool:
    return hasattr(values, "__len__") and not isinstance(values, str | bytes | Mapping)


def _read_turn(message: Any, notes: dict[str, None]) -> Turn:
    if isinstance(message, str | bytes):
        message = from_json(message, "a turn is not a message (str)")
    if not isinstance(message, Mapping):
        raise Reject(f"a turn is not a message ({type(message).__name__})")
    name, given = _first(message, _ROLE_KEYS), _first(message, _CONTENT_KEYS)
    role = ALIASES.get(str(name)) or ALIASES.get(plain_name(name))
    if role is not None:
        return _read_as(role, message, given, notes, [])
    calls = calls_in_content(given, notes) if plain_name(name) in _CALL_ROLES else []
    if not calls:
        raise Reject(unknown_role(name))
    return _read_as("assistant", message, "", notes, calls)


def _read_as(
    role: str, message: Mapping[str, Any], given: Any, notes: dict[str, None], calls: list[ToolCall]
) -> Turn:
    """The turn of a message whose role is known. ``given``: its content. ``calls``: those that its
    content was."""
    spoken = role == "assistant"
    keys = (_ROLE_KEYS, _CONTENT_KEYS, _THOUGHT_KEYS if spoken else ())
    used = [key for family in keys for key in _same(message, family)]
    used += [CALLS, OLD_CALL] if spoken and not calls else []
    used += RESULT_KEYS if role == "tool" else ()
    fields = read_fields(message, used, assistant=spoken)
    if fields.refusal:
        raise Reject(fields.refusal)
    content = _content(given)
    notes |= dict.fromkeys((*fields.notes, *content.notes))
    turn = Turn(role=role, content=content.text)
    if role == "tool":
        add_result_keys(turn, message)
    if spoken:
        if calls := calls or calls_of(message, notes):
            turn["tool_calls"] = calls
        reasoning = (content.reasoning, _first(message, _THOUGHT_KEYS))
        turn["content"] = _with_reasoning(content.text, reasoning, calls=bool(calls))
        if not fields.learn:
            turn["learn"] = False
    return turn


def _first(message: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((message[key] for key in keys if message.get(key) is not None), None)


def _same(message: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    """The key that is read of several, and those that only repeat its value."""
    there = [key for key in keys if message.get(key) is not None]
    return [key for key in there if key == there[0] or _equal(message[key], message[there[0]])]


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, str) and isinstance(right, str) and left == right


def _content(content: Any) -> _Content:
    if content is None or isinstance(content, str):
        return _Content(content or "")
    if isinstance(content, Mapping):
        if not {"type", "text"} & content.keys():
            raise Reject("content is not text (an object)")
        content = [content]
    if not hasattr(content, "__iter__"):
        raise Reject(f"content is not text ({type(content).__name__})")
    parts = [_part(part) for part in content]
    texts = [part.text for part in parts if part.text]
    reasoning = "\n".join(part.reasoning for part in parts if part.reasoning)
    joined = (JOINED,) * (len(texts) > 1)
    notes = (note for part in parts for note in part.notes)
    return _Content("\n".join(texts), reasoning, (*joined, *notes))


def _part(part: Any) -> _Content:
    if isinstance(part, str):
        return _Content(part)
    if not isinstance(part, Mapping):
        raise Reject(f"content is not text (list of {type(part).__name__})")
    kind = "text" if part.get("type") is None and "text" in part else str(part.get("type"))[:40]
    if kind in _TOOL_PARTS:
        raise Reject(other_form(f"content part {kind!r}"))
    if kind not in (*_TEXT_PARTS, *_THOUGHT_PARTS):
        raise Reject(f"only text is read (content part {kind!r} found)")
    key = next((k for k in (kind, "text") if isinstance(part.get(k), str)), None)
    fields = read_fields(part, ("type", key or "text"), assistant=True)
    if fields.refusal or not fields.learn:
        raise Reject(fields.refusal or "a content is to be learned in part")
    if key is None and not blank(part.get("text")):
        raise Reject("text of a content part is not text")
    text = part[key] if key else ""
    notes = tuple(note.replace("turn", "content part", 1) for note in fields.notes)
    return _Content("", text, notes) if kind in _THOUGHT_PARTS else _Content(text, "", notes)


def _with_reasoning(content: str, fields: Iterable[Any], *, calls: bool) -> str:
    """An answer with the reasoning of its fields in front; the content may hold it too."""
    found = [reasoning for reasoning in fields if not blank(reasoning)]
    if not found:
        return content
    if not all(isinstance(reasoning, str) for reasoning in found):
        raise Reject("reasoning is not text")
    block = read_block(content)
    if block.fault:
        raise Reject(block.fault)
    if block.reasoning is not None and block.reasoning.strip():
        found.append(block.reasoning)
    if len({reasoning.strip() for reasoning in found}) > 1:
        raise Reject("two different reasonings of one turn")
    return thought(found[0], block.answer, calls=calls)
