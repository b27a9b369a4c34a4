"""Turns as the messages that a template takes.

Templates differ in what they read: reasoning in a field of its own or inside the content, arguments
of tool calls as objects or as text, contents as text or in parts. What one reads is found once, by
rendering small conversations with it; nothing is known by name.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_lib.records import Turn
from pipeline_lib.tracing.program import ChatInput, ChatProgram
from pipeline_lib.tracing.trace import TemplateRefused
from pipeline_lib.tracing.traced_values import Message, json_text

THINK, END_OF_THINK = "<think>\n", "\n</think>\n\n"
"""Around the reasoning at the start of a stored answer."""
_ASKED, _SAID, _THOUGHT, _CITY = "qasked", "qsaid", "qthought", "qcity"
_TOOL = {
    "type": "function",
    "function": {
        "name": "qtool",
        "description": "q",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    },
}


@dataclass(frozen=True)
class MessageForm:
    """What a template reads. ``parts``: contents are lists of parts. ``reasoning_field``: reasoning
    has a field of its own. ``arguments_text``: arguments are JSON text. ``no_content``: a message
    that only calls tools has no content."""

    parts: bool = False
    reasoning_field: bool = False
    arguments_text: bool = False
    no_content: bool = False


def form_of(program: ChatProgram) -> MessageForm:
    """The form in which a template shows all of a conversation; the plainest, if none does."""
    talk = [_message("user", _ASKED), _message("assistant", _SAID)]
    parts = not _shows(program, talk, False) and _shows(program, talk, True)
    thoughtful = [talk[0], {**talk[1], "reasoning_content": _THOUGHT}]
    field = _shows(program, thoughtful, parts, _THOUGHT)
    for text, none in ((False, False), (False, True), (True, False), (True, True)):
        calling = [talk[0], _calling(text=text, none=none), _message("tool", _SAID)]
        if _shows(program, calling, parts, _CITY, "qtool"):
            return MessageForm(parts, field, text, none)
    return MessageForm(parts, field)


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _calling(*, text: bool, none: bool) -> Message:
    arguments = {"q": _CITY}
    function = {"name": "qtool", "arguments": json_text(arguments) if text else arguments}
    calls = [{"type": "function", "id": "call00001", "function": function}]
    return {"role": "assistant", "content": None if none else "", "tool_calls": calls}


def _shows(program: ChatProgram, messages: list[Message], parts: bool, *also: str) -> bool:
    given = [_in_parts(m) for m in messages] if parts else messages
    tools = [_TOOL] if any("tool_calls" in m for m in messages) else None
    try:
        text = program.proven(ChatInput(given, tools)).text
    except TemplateRefused:
        return False
    return all(word in text for word in (_ASKED, _SAID, *also))


def _in_parts(message: Message) -> Message:
    content = message["content"]
    if content is None:
        return message
    return {**message, "content": [{"type": "text", "text": content}]}


def messages_of(turns: Sequence[Turn], form: MessageForm) -> list[Message]:
    """The messages of a conversation; ``TemplateRefused`` for arguments that are no object."""
    found = [_message_of(turn, form) for turn in turns]
    return [_in_parts(message) for message in found] if form.parts else found


def _message_of(turn: Turn, form: MessageForm) -> Message:
    message: Message = {"role": turn["role"], "content": turn["content"]}
    if turn["role"] == "assistant" and form.reasoning_field:
        reasoning, answer = split_thought(turn["content"])
        if reasoning is not None:
            message |= {"content": answer, "reasoning_content": reasoning}
    if calls := turn.get("tool_calls"):
        message["tool_calls"] = [_call(call, form) for call in calls]
        if form.no_content and not message["content"]:
            message["content"] = None
    for name in ("name", "tool_call_id"):
        if name in turn:
            message[name] = turn[name]  # type: ignore[literal-required]
    return message


def split_thought(content: str) -> tuple[str | None, str]:
    """(reasoning, answer) of a stored answer; no reasoning: (None, content)."""
    if content.startswith(THINK):
        reasoning, mark, answer = content[len(THINK) :].partition(END_OF_THINK)
        if mark:
            return reasoning, answer
    return None, content


def _call(call: Any, form: MessageForm) -> dict[str, Any]:
    function = dict(call["function"])
    given = function.get("arguments", {})
    if form.arguments_text:
        function["arguments"] = given if isinstance(given, str) else json_text(given)
    else:
        function["arguments"] = _as_object(given)
    return {**call, "function": function}


def _as_object(arguments: Any) -> Any:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            arguments = None
    if not isinstance(arguments, dict):
        raise TemplateRefused("arguments of a tool call are not a JSON object")
    return arguments
