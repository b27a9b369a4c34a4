"""The results of normalizers, and the one check of them.

A normalizer turns a row into a list of turns, a ``Pair`` or a ``Reject``; the helpers in ``turns``
do the usual work. Only ``check_result`` decides whether a result is valid, and it repairs nothing.
A normalizer that wants to cut, merge or drop something calls a helper, which leaves a note; notes
are counted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pipeline_lib.chat.thoughts import THINK, block_fault
from pipeline_lib.chat.turn_fields import read_fields, row_fields, tool_role
from pipeline_lib.records import ROLES, Turn
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS

MARKER_NOTE = "control marker kept as text"
THOUGHT_NOTE = "has reasoning"
UNLEARNED_NOTE = "has a turn that is not learned"
_READ = ("role", "content", "cut")
_MARKER = re.compile("|".join(map(re.escape, CONTROL_TOKENS)))


class Reject(Exception):
    """A row that is not used, and the ``reason``, which is counted.

    A normalizer may return it or raise it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Turns(list[Turn]):
    """A list of turns (``{"role", "content"}``) with ``notes``, one text for each change.

    Notes are counted by their text. A turn with ``learn`` false is never trained on.
    """

    def __init__(self, turns: Iterable[Turn] = (), notes: Iterable[str] = ()) -> None:
        super().__init__(turns)
        self.notes: tuple[str, ...] = tuple(notes)


@dataclass(frozen=True)
class Pair:
    """A preference: two continuations of one prompt; all three are lists of turns.

    ``prompt`` ends with a user turn. ``notes``: as for ``Turns``.
    """

    prompt: list[Turn]
    chosen: list[Turn]
    rejected: list[Turn]
    notes: tuple[str, ...] = ()


Result = Sequence[Mapping[str, Any]] | Pair | Reject | None
"""The type of a normalizer's result; None is a rejection without a reason."""


def check_result(result: Result, row: Mapping[str, Any] | None = None) -> Turns | Pair | Reject:
    """Check the result of a normalizer; an invalid result comes back as a ``Reject``.

    Roles must be known, and contents must be text that is not blank. A system turn may only be the
    first turn. User and assistant turns alternate, from a user turn to an assistant turn; a single
    assistant turn is a document. Two turns of one role in a row are a rejection, nothing is merged.
    A pair needs a prompt that ends with a user turn, and two different continuations.

    The turns come back with role, content, and ``learn`` and ``cut`` where they matter. Other
    fields of a turn are read as ``read_fields`` says: flags against learning are obeyed, a tool
    call is a rejection, the rest is noted. The marks of a think block must be one block. ``row``:
    the row that the result was made of; its flags against learning hold for all turns.
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
    fields = row_fields(row)
    if fields.learn and not fields.notes:
        return result
    notes = (*result.notes, *fields.notes)
    if isinstance(result, Pair):
        sides = (result.prompt, result.chosen, result.rejected)
        prompt, chosen, rejected = (_with_learn(side, fields.learn) for side in sides)
        return Pair(prompt, chosen, rejected, notes)
    return Turns(_with_learn(result, fields.learn), notes)


def _with_learn(turns: Iterable[Turn], learn: bool) -> list[Turn]:
    return [turn if learn or turn["role"] != "assistant" else unlearned(turn) for turn in turns]


def unlearned(turn: Turn) -> Turn:
    """The same turn, without loss."""
    return {**turn, "learn": False}


def _checked(result: Sequence[Mapping[str, Any]]) -> Turns:
    turns = _plain(result)
    if not turns:
        raise Reject("no turns")
    body = turns[turns[0]["role"] == "system" :]
    roles = [turn["role"] for turn in body]
    if "system" in roles:
        raise Reject("a system turn is not first")
    if "assistant" not in roles:
        raise Reject("no assistant turn")
    if any(left == right for left, right in pairwise(roles)):
        raise Reject("same role twice in a row")
    if roles[-1] != "assistant":
        raise Reject("ends with a user turn")
    if roles[0] != "user" and len(roles) > 1:
        raise Reject("starts with an assistant turn")
    notes = getattr(result, "notes", ())
    return Turns(turns, (*notes, *turns.notes, *_content_notes(turns)))


def _checked_pair(pair: Pair) -> Pair:
    prompt = _plain(pair.prompt)
    if not prompt or prompt[-1]["role"] != "user":
        raise Reject("the prompt does not end with a user turn")
    chosen, rejected = _plain(pair.chosen), _plain(pair.rejected)
    notes = {*prompt.notes, *chosen.notes, *rejected.notes}
    notes |= {*_checked(prompt + chosen).notes, *_checked(prompt + rejected).notes}
    if _stripped(chosen) == _stripped(rejected):
        raise Reject("chosen equals rejected")
    return Pair([*prompt], [*chosen], [*rejected], (*pair.notes, *sorted(notes)))


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
    fields = read_fields(turn, _READ, assistant=role == "assistant")
    notes |= dict.fromkeys(fields.notes)
    if fields.refusal:
        raise Reject(fields.refusal)
    if not isinstance(content, str):
        raise Reject(f"content is not text ({type(content).__name__})")
    if not content.strip():
        raise Reject(f"blank {role} turn")
    try:
        content.encode()
    except UnicodeEncodeError:
        raise Reject("content is not valid Unicode") from None
    plain = Turn(role=role, content=content)
    if role == "assistant":
        if fault := block_fault(content):
            raise Reject(fault)
        if not fields.learn:
            plain["learn"] = False
        if turn.get("cut"):
            plain["cut"] = True
    return plain


def unknown_role(role: object) -> str:
    """The reason for an unknown role, short enough to be counted."""
    if tool_role(role):
        return f"tool calls are not rendered yet (role {str(role)[:20]!r})"
    return f"unknown role {str(role)[:20]!r}"


def _content_notes(turns: list[Turn]) -> Iterator[str]:
    if any("<|" in turn["content"] and _MARKER.search(turn["content"]) for turn in turns):
        yield MARKER_NOTE
    if any(turn["role"] == "assistant" and turn["content"].startswith(THINK) for turn in turns):
        yield THOUGHT_NOTE
    if not all(turn.get("learn", True) for turn in turns):
        yield UNLEARNED_NOTE


def same_text(left: Turn, right: Turn) -> bool:
    """Whether two turns say the same, whatever else their data set says of them."""
    return left["role"] == right["role"] and left["content"] == right["content"]


def _stripped(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [(turn["role"], turn["content"].strip()) for turn in turns]
