"""Small tools for normalizers: from the fields of a row to turns.

Each tool does one thing, and leaves a note if it cut, merged or dropped something. A row that can
not become turns raises ``Reject``.

    def _norm_wildchat(row):
        return tidy(read_turns(row["conversation"]))
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal

from pipeline_lib.chat.conversation import THINK, Pair, Reject, Turns, unknown_role
from pipeline_lib.records import Turn

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
}
"""Names of roles in data sets, in lower case; any other name is a rejection."""

_ROLE_KEYS = ("role", "from")
_CONTENT_KEYS = ("content", "value", "text")
_THOUGHT_KEYS = ("reasoning_content", "reasoning", "thinking")
_THOUGHT_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
_SOLUTION_MARK = re.compile(r"<\|(?:begin|end)_of_solution\|>")


def user(content: str) -> Turn:
    """A user turn."""
    return Turn(role="user", content=content)


def assistant(content: str) -> Turn:
    """An assistant turn."""
    return Turn(role="assistant", content=content)


def read_turns(messages: Any, *, system: str | None = None) -> Turns:
    """Turns from a list of messages, or from one mapping of lists, under the usual keys.

    Keys: ``role`` or ``from``; ``content``, ``value`` or ``text``; for reasoning, which goes in
    front of the answer (see ``thought``), ``reasoning_content``, ``reasoning`` or ``thinking``.
    Keys with null count as absent. Role names go through ``ALIASES``. A null content becomes a
    blank turn, where ``tidy`` cuts. ``system``: a system prompt that the row has outside its
    messages. ``Reject`` without messages, for an unknown role, or for a content that is not text.
    """
    turns = [_read_turn(message) for message in _as_list(messages)]
    if system and system.strip() and (not turns or turns[0]["role"] != "system"):
        turns.insert(0, Turn(role="system", content=system))
    return Turns(turns)


def _as_list(messages: Any) -> Sequence[Any]:
    if messages is None or len(messages) == 0:
        raise Reject("no turns")
    if isinstance(messages, Mapping):  # a sequence of structs may come as a struct of sequences
        columns = {key: values for key, values in messages.items() if values is not None}
        if len({len(values) for values in columns.values()}) != 1:
            raise Reject("lists of a turn differ in length")
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]
    if isinstance(messages, str):
        raise Reject("turns are one string, not a list of messages")
    return list(messages)


def _read_turn(message: Any) -> Turn:
    if not isinstance(message, Mapping):
        raise Reject(f"a turn is not a message ({type(message).__name__})")
    name = _first(message, _ROLE_KEYS)
    role = ALIASES.get(str(name).lower())
    if role is None:
        raise Reject(unknown_role(name))
    content = _first(message, _CONTENT_KEYS)
    if content is None:
        return Turn(role=role, content="")
    if not isinstance(content, str):
        raise Reject(f"content is not text ({type(content).__name__})")
    reasoning = _first(message, _THOUGHT_KEYS)
    if role == "assistant" and isinstance(reasoning, str):
        content = thought(reasoning, content)
    return Turn(role=role, content=content)


def _first(message: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((message[key] for key in keys if message.get(key) is not None), None)


def dialogue(utterances: Sequence[str], speakers: Sequence[str] | None = None) -> Turns:
    """Turns from plain utterances; the first speaker is the user.

    Without ``speakers`` user and assistant alternate. With ``speakers`` their names decide; a third
    name is a ``Reject``. If the lists differ in length, only the common part is used, with a note.
    """
    if not utterances:
        raise Reject("no turns")
    if speakers is None:
        roles = ["user", "assistant"] * len(utterances)
        return Turns(_spoken(roles, utterances))
    names = list(dict.fromkeys(speakers[: len(utterances)]))
    if len(names) > 2:
        raise Reject("more than two speakers")
    differ = ["speakers and utterances differ in number"] * (len(speakers) != len(utterances))
    side = dict(zip(names, ("user", "assistant"), strict=False))
    return Turns(_spoken([side[name] for name in speakers[: len(utterances)]], utterances), differ)


def _spoken(roles: Sequence[str], utterances: Sequence[str | None]) -> list[Turn]:
    both = zip(roles, utterances, strict=False)
    return [Turn(role=role, content=content or "") for role, content in both]


def tidy(turns: Turns, *, same_role: Literal["merge", "reject"] = "merge") -> Turns:
    """The usual repairs, in this order; each leaves a note, except the first.

    Leave out blank system turns. Cut at the first blank turn. Drop assistant turns at the start,
    which answer nothing. Merge neighbours of one role, with a blank line between them
    (``same_role="merge"``), or raise ``Reject`` (``"reject"``). Drop turns after the last assistant
    turn. ``Reject`` if there is no assistant turn.
    """
    notes = list(turns.notes)

    def noted(note: str, now: list[Turn], before: list[Turn]) -> list[Turn]:
        if len(now) != len(before):
            notes.append(note)
        return now

    kept = [t for t in turns if t["role"] != "system" or t["content"].strip()]
    kept = noted("cut at a blank turn", _until(kept, lambda t: not t["content"].strip()), kept)
    head = _until(kept, lambda t: t["role"] != "system")
    body = kept[len(head) :]
    silent = _until(body, lambda t: t["role"] != "assistant")
    body = noted("dropped a leading assistant turn", body[len(silent) :], body)
    merged = _merged(head) + _merged(body)
    if same_role == "reject" and len(merged) != len(head) + len(body):
        raise Reject("same role twice in a row")
    kept = noted("merged turns of one role", merged, head + body)
    end = max((i + 1 for i, t in enumerate(kept) if t["role"] == "assistant"), default=0)
    if not end:
        raise Reject("no assistant turn")
    return Turns(noted("dropped a trailing user turn", kept[:end], kept), notes)


def _until(turns: list[Turn], stop: Callable[[Turn], bool]) -> list[Turn]:
    return list(takewhile(lambda turn: not stop(turn), turns))


def _merged(turns: list[Turn]) -> list[Turn]:
    out: list[Turn] = []
    for turn in turns:
        if out and out[-1]["role"] == turn["role"]:
            both = f"{out[-1]['content']}\n\n{turn['content']}"
            out[-1] = Turn(role=turn["role"], content=both)
        else:
            out.append(turn)
    return out


def thought(reasoning: str | None, answer: str) -> str:
    """An answer with its reasoning in front: ``<think>``, reasoning, ``</think>``, answer.

    Blank reasoning adds nothing. A blank answer stays blank, because reasoning without an answer
    teaches a model not to answer.
    """
    if not reasoning or not reasoning.strip() or not answer.strip():
        return answer
    return f"{THINK}{reasoning.strip()}\n</think>\n\n{answer.strip()}"


def canonical_thoughts(turns: Turns) -> Turns:
    """Bring think blocks at the start of assistant turns to the form of ``thought``.

    Other spellings of the tags are replaced; marks around the solution and empty blocks are
    removed. A block without an end is a ``Reject``.
    """
    return Turns(
        (
            assistant(_canonical(turn["content"])) if turn["role"] == "assistant" else turn
            for turn in turns
        ),
        turns.notes,
    )


def _canonical(content: str) -> str:
    text = content.lstrip()
    for opening, closing in _THOUGHT_TAGS.items():
        if text.startswith(opening):
            reasoning, end, answer = text[len(opening) :].partition(closing)
            if not end:
                raise Reject("think block without an end")
            return thought(reasoning, _SOLUTION_MARK.sub("", answer).strip())
    return content


def preference(chosen: Turns, rejected: Turns) -> Pair:
    """A pair from two conversations; the prompt is their longest common start.

    The prompt ends with a user turn. So if the two differ first in a user turn, the common answer
    before it belongs to both continuations. ``Reject`` if there is no common prompt.
    """
    same = takewhile(lambda both: both[0] == both[1], zip(chosen, rejected, strict=False))
    size = sum(1 for _ in same)
    while size and (size == len(chosen) or chosen[size - 1]["role"] != "user"):
        size -= 1
    if not size:
        raise Reject("the two sides have no common prompt")
    notes = (*chosen.notes, *rejected.notes)
    return Pair(list(chosen[:size]), list(chosen[size:]), list(rejected[size:]), notes)


def cut_bytes(text: str, limit: int) -> str:
    """The longest start of ``text`` that has at most ``limit`` UTF-8 bytes, in whole characters."""
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode(errors="ignore")


def document(text: str | None, *, max_bytes: int = 4_096) -> Turns:
    """A plain text as a conversation: one assistant turn, cut to ``max_bytes`` of UTF-8.

    A cut leaves a note; a blank text is a ``Reject``.
    """
    if not text or not text.strip():
        raise Reject("blank document")
    cut = cut_bytes(text, max_bytes)
    return Turns([assistant(cut)], [f"cut to {max_bytes:,} bytes"] if cut != text else [])
