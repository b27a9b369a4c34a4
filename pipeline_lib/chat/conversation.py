"""The results of normalizers, and the one check of them.

A normalizer turns a row into a list of turns, a ``Pair`` or a ``Reject``; the helpers in ``turns``
do the usual work. Only ``check_result`` decides whether a result is valid, and it repairs nothing.
A normalizer that wants to cut, merge or drop something calls a helper, which leaves a note; notes
are counted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_lib.chat.json_values import as_json
from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.thoughts import THINK, block_fault
from pipeline_lib.chat.tool_calls import CALLS, OLD_CALL, RESULT_KEYS, add_result_keys, calls_of
from pipeline_lib.chat.tool_schemas import checked_tools
from pipeline_lib.chat.turn_fields import blank, other_form, read_fields, row_fields, tool_role
from pipeline_lib.chat.turn_order import check_order
from pipeline_lib.records import ROLES, TOOL_FIELDS, JsonObject, Turn
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS

MARKER_NOTE = "control marker kept as text"
THOUGHT_NOTE = "has reasoning"
UNLEARNED_NOTE = "has a turn that is not learned"
_READ = ("role", "content", "cut")
_READ_OF = {
    "system": _READ,
    "user": _READ,
    "assistant": (*_READ, CALLS, OLD_CALL),
    "tool": (*_READ, *RESULT_KEYS),
}
"""Role -> the fields that ``check_result`` reads of a turn."""
_TOOLS_OF_ROWS = ("tools", "functions")
_MARKER = re.compile("|".join(map(re.escape, CONTROL_TOKENS)))


class Turns(list[Turn]):
    """A list of turns (``{"role", "content"}``) with ``notes``, one text for each change.

    Notes are counted by their text. A turn with ``learn`` false is never trained on. ``tools``: the
    JSON schemas of the tools that the conversation was offered.
    """

    def __init__(
        self,
        turns: Iterable[Turn] = (),
        notes: Iterable[str] = (),
        tools: list[JsonObject] | None = None,
    ) -> None:
        super().__init__(turns)
        self.notes: tuple[str, ...] = tuple(notes)
        self.tools = tools


@dataclass(frozen=True)
class Pair:
    """A preference: two continuations of one prompt; all three are lists of turns.

    ``prompt`` ends with a user turn or the result of a tool. ``notes`` and ``tools``: as for
    ``Turns``.
    """

    prompt: list[Turn]
    chosen: list[Turn]
    rejected: list[Turn]
    notes: tuple[str, ...] = ()
    tools: list[JsonObject] | None = None


Result = Sequence[Mapping[str, Any]] | Pair | Reject | None
"""The type of a normalizer's result; None is a rejection without a reason."""


def check_result(result: Result, row: Mapping[str, Any] | None = None) -> Turns | Pair | Reject:
    """Check the result of a normalizer; an invalid result comes back as a ``Reject``.

    Roles must be known, and contents must be text that is not blank, except beside tool calls and
    in their results. Turns must be in the order that ``check_order`` tells; nothing is merged. A
    pair needs a prompt that ends with a user turn or the result of a tool, and two different
    continuations that begin with an assistant turn.

    The turns come back with role, content, ``TOOL_FIELDS``, and ``learn`` and ``cut`` where they
    matter. Other fields of a turn are read as ``read_fields`` says: flags against learning are
    obeyed, what would be lost is a rejection, the rest is noted. The marks of a think block must be
    one block. ``row``: the row that the result was made of; its flags against learning hold for all
    turns, and tools that it offers and that were not read are noted.
    """
    try:
        if isinstance(result, Reject):
            return result
        if result is None:
            return Reject("unspecified")
        checked = _checked_pair(result) if isinstance(result, Pair) else _checked(result)
    except Reject as reject:
        return reject
    return checked if row is None else _flagged(checked, row)


def _flagged(result: Turns | Pair, row: Mapping[str, Any]) -> Turns | Pair:
    fields, unread = row_fields(row), _unread_tools(result, row)
    if fields.learn and not fields.notes and not unread:
        return result
    notes = (*result.notes, *fields.notes, *unread)
    if isinstance(result, Pair):
        sides = (result.prompt, result.chosen, result.rejected)
        prompt, chosen, rejected = (_with_learn(side, fields.learn) for side in sides)
        return Pair(prompt, chosen, rejected, notes, result.tools)
    return Turns(_with_learn(result, fields.learn), notes, result.tools)


def _unread_tools(result: Turns | Pair, row: Mapping[str, Any]) -> list[str]:
    """A note for tools that a row offers and its normalizer did not read."""
    keys = () if result.tools else _TOOLS_OF_ROWS
    return [f"row key {key!r} is not read" for key in keys if key in row and not blank(row[key])]


def _with_learn(turns: Iterable[Turn], learn: bool) -> list[Turn]:
    return [turn if learn or turn["role"] != "assistant" else unlearned(turn) for turn in turns]


def unlearned(turn: Turn) -> Turn:
    """The same turn, without loss."""
    return {**turn, "learn": False}


def _checked(result: Sequence[Mapping[str, Any]]) -> Turns:
    turns = _plain(result)
    if not turns:
        raise Reject("no turns")
    check_order(turns)
    notes, tools = getattr(result, "notes", ()), checked_tools(getattr(result, "tools", None))
    return Turns(turns, (*notes, *turns.notes, *_content_notes(turns)), tools)


def _checked_pair(pair: Pair) -> Pair:
    prompt = _plain(pair.prompt)
    if not prompt or prompt[-1]["role"] not in ("user", "tool"):
        raise Reject("the prompt does not end with a user turn")
    chosen, rejected = _plain(pair.chosen), _plain(pair.rejected)
    if any(side and side[0]["role"] == "tool" for side in (chosen, rejected)):
        raise Reject("a continuation begins with the result of a tool")
    notes = {*prompt.notes, *chosen.notes, *rejected.notes}
    notes |= {*_checked(prompt + chosen).notes, *_checked(prompt + rejected).notes}
    if [*map(spoken, chosen)] == [*map(spoken, rejected)]:
        raise Reject("chosen equals rejected")
    tools = checked_tools(pair.tools)
    return Pair([*prompt], [*chosen], [*rejected], (*pair.notes, *sorted(notes)), tools)


def _plain(turns: Sequence[Mapping[str, Any]]) -> Turns:
    if not isinstance(turns, list | tuple):
        raise Reject(f"the result is not a list of turns ({type(turns).__name__})")
    notes = dict[str, None]()
    return Turns([_plain_turn(turn, notes) for turn in turns], notes)


def _plain_turn(turn: Mapping[str, Any], notes: dict[str, None]) -> Turn:
    if not isinstance(turn, Mapping):
        raise Reject(f"a turn is not a mapping ({type(turn).__name__})")
    role, content = turn.get("role"), turn.get("content")
    if role not in ROLES:
        raise Reject(unknown_role(role))
    fields = read_fields(turn, _READ_OF[role], assistant=role == "assistant")
    notes |= dict.fromkeys(fields.notes)
    if fields.refusal:
        raise Reject(fields.refusal)
    calls = calls_of(turn, notes) if role == "assistant" else []
    if content is None and (calls or role == "tool"):
        content = ""
    if not isinstance(content, str):
        raise Reject(f"content is not text ({type(content).__name__})")
    if not content.strip() and not calls and role != "tool":
        raise Reject(f"blank {role} turn")
    try:
        content.encode()
    except UnicodeEncodeError:
        raise Reject("content is not valid Unicode") from None
    plain = Turn(role=role, content=content)
    if role == "tool":
        add_result_keys(plain, turn)
    if role == "assistant":
        if fault := block_fault(content):
            raise Reject(fault)
        if not fields.learn:
            plain["learn"] = False
        if turn.get("cut"):
            plain["cut"] = True
        if calls:
            plain["tool_calls"] = calls
    return plain


def unknown_role(role: object) -> str:
    """The reason for an unknown role, short enough to be counted."""
    if tool_role(role):
        return other_form(f"role {str(role)[:20]!r}")
    return f"unknown role {str(role)[:20]!r}"


def _content_notes(turns: list[Turn]) -> Iterator[str]:
    texts = [turn["content"] for turn in turns]
    texts += [tool_fields(turn).decode() for turn in turns if len(turn) > 2]
    if any("<|" in text and _MARKER.search(text) for text in texts):
        yield MARKER_NOTE
    if any(turn["role"] == "assistant" and turn["content"].startswith(THINK) for turn in turns):
        yield THOUGHT_NOTE
    if not all(turn.get("learn", True) for turn in turns):
        yield UNLEARNED_NOTE


def tool_fields(turn: Turn) -> bytes:
    """``TOOL_FIELDS`` of a turn as compact JSON; nothing for a turn that has none of them."""
    if len(turn) == 2:  # role and content, as of nearly all turns
        return b""
    found = {key: turn[key] for key in TOOL_FIELDS if key in turn}  # type: ignore[literal-required]
    return as_json(found) if found else b""


def same_text(left: Turn, right: Turn) -> bool:
    """Whether two turns say the same, whatever else their data set says of them."""
    same = left["role"] == right["role"] and left["content"] == right["content"]
    return same and tool_fields(left) == tool_fields(right)


def spoken(turn: Turn) -> tuple[str, str, bytes]:
    """What a turn says, without the white space around it."""
    return turn["role"], turn["content"].strip(), tool_fields(turn)


def says_nothing(turn: Turn) -> bool:
    """Whether a turn is blank: it has no text, calls no tool, and is no result of a call."""
    return not (turn["content"].strip() or turn.get("tool_calls") or turn["role"] == "tool")
