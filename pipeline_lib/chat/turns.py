"""Small tools for normalizers: from the fields of a row to turns.

Each tool does one thing, and leaves a note if it cut, merged or dropped something. A row that can
not become turns raises ``Reject``.

    def _norm_wildchat(row):
        return tidy(read_turns(row["conversation"]))
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Literal

from pipeline_lib.chat.conversation import Pair, Turns, same_text, says_nothing, unlearned
from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.thoughts import canonical, read_block
from pipeline_lib.records import Turn

IMPLIED = "think block opened by the prompt"


def user(content: str) -> Turn:
    """A user turn."""
    return Turn(role="user", content=content)


def assistant(content: str) -> Turn:
    """An assistant turn."""
    return Turn(role="assistant", content=content)


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
    which answer nothing, with the results of their calls. Merge neighbours of one role, with a
    blank line between them (``same_role="merge"``), or raise ``Reject`` (``"reject"``). Drop turns
    after the last assistant turn. ``Reject`` if there is no assistant turn.

    Calls of neighbours become calls of one turn, after its text. Results of tools are not merged,
    and neither is a text that comes after a call.
    """
    notes = list(turns.notes)

    def noted(note: str, now: list[Turn], before: list[Turn]) -> list[Turn]:
        if len(now) != len(before):
            notes.append(note)
        return now

    kept = [t for t in turns if t["role"] != "system" or t["content"].strip()]
    kept = noted("cut at a blank turn", _until(kept, says_nothing), kept)
    head = _until(kept, lambda t: t["role"] != "system")
    body = kept[len(head) :]
    silent = _until(body, lambda t: t["role"] not in ("assistant", "tool"))
    leading = f"dropped a leading {body[0]['role']} turn" if body else ""
    body = noted(leading, body[len(silent) :], body)
    merged = _merged(head) + _merged(body)
    if same_role == "reject" and len(merged) != len(head) + len(body):
        raise Reject("same role twice in a row")
    kept = noted("merged turns of one role", merged, head + body)
    end = max((i + 1 for i, t in enumerate(kept) if t["role"] == "assistant"), default=0)
    if not end:
        raise Reject("no assistant turn")
    trailing = f"dropped a trailing {kept[-1]['role']} turn"
    return Turns(noted(trailing, kept[:end], kept), notes, turns.tools)


def _until(turns: list[Turn], stop: Callable[[Turn], bool]) -> list[Turn]:
    return list(takewhile(lambda turn: not stop(turn), turns))


def _merged(turns: list[Turn]) -> list[Turn]:
    """Loss falls on merged turns only if it falls on each of them."""
    out: list[Turn] = []
    for turn in turns:
        if out and _mergeable(out[-1], turn):
            both = _both(out[-1], turn)
            out[-1] = both if out[-1].get("learn", True) else unlearned(both)
        else:
            out.append(turn)
    return out


def _mergeable(before: Turn, turn: Turn) -> bool:
    if before["role"] != turn["role"] or turn["role"] == "tool":
        return False
    return not (before.get("tool_calls") and turn["content"].strip())


def _both(before: Turn, turn: Turn) -> Turn:
    texts, calls = (before["content"], turn["content"]), before.get("tool_calls", [])
    calls = [*calls, *turn.get("tool_calls", [])]
    if not calls:
        return {**turn, "content": "\n\n".join(texts)}
    return {**turn, "content": "\n\n".join(t for t in texts if t.strip()), "tool_calls": calls}


def canonical_thoughts(turns: Turns) -> Turns:
    """Bring think blocks at the start of assistant turns to the form of ``thought``.

    Other spellings of the tags are replaced; marks around the solution and empty blocks are
    removed. If the first mark of a turn is a closing one, what stands before it is the reasoning,
    because templates of reasoning models open the block in the prompt; this leaves a note. Marks
    that are not one block at the start are a ``Reject``.
    """
    out, notes = list[Turn](), dict.fromkeys(turns.notes)
    for turn in turns:
        if turn["role"] == "assistant":
            block = read_block(turn["content"])
            if block.fault:
                raise Reject(block.fault)
            if block.implied:
                notes[IMPLIED] = None
            calls = bool(turn.get("tool_calls"))
            turn = {**turn, "content": canonical(block, calls=calls)}
        out.append(turn)
    return Turns(out, notes, turns.tools)


def preference(chosen: Turns, rejected: Turns) -> Pair:
    """A pair from two conversations; the prompt is their longest common start.

    The prompt ends where an assistant's turn follows. So if the two differ first in a user turn or
    in the result of a tool, the common answer before it belongs to both continuations. ``Reject``
    if there is no common prompt, and if the two were offered different tools.
    """
    same = takewhile(lambda both: same_text(*both), zip(chosen, rejected, strict=False))
    size = sum(1 for _ in same)
    while size and not _is_prompt(chosen, rejected, size):
        size -= 1
    if not size:
        raise Reject("the two sides have no common prompt")
    if chosen.tools != rejected.tools:
        raise Reject("the two sides have different tools")
    notes = (*chosen.notes, *rejected.notes)
    sides = (list(chosen[:size]), list(chosen[size:]), list(rejected[size:]))
    return Pair(*sides, notes, chosen.tools)


def _is_prompt(chosen: Turns, rejected: Turns, size: int) -> bool:
    """Whether the first turns of two conversations are a prompt of both."""
    if size == len(chosen) or chosen[size - 1]["role"] not in ("user", "tool"):
        return False
    return all(turn["role"] != "tool" for turn in (chosen[size], *rejected[size : size + 1]))


def cut_bytes(text: str, limit: int) -> str:
    """The longest start of ``text`` that has at most ``limit`` UTF-8 bytes, in whole characters."""
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode(errors="ignore")


def document(text: str | None, *, max_bytes: int = 4_096) -> Turns:
    """A plain text as a conversation: one assistant turn, cut to ``max_bytes`` of UTF-8.

    A cut leaves a note, and no loss falls on the end of a cut text; a blank text is a ``Reject``.
    A document is pretraining text: it is not in SFT unless one asks for it.
    """
    if not text or not text.strip():
        raise Reject("blank document")
    cut = cut_bytes(text, max_bytes)
    if cut == text:
        return Turns([assistant(text)])
    turn = Turn(role="assistant", content=cut, cut=True)
    return Turns([turn], [f"cut to {max_bytes:,} bytes"])
