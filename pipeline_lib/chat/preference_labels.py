"""What others said of a row: which answer won, which is wrong, what is unsafe or not free. Pure."""

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from pipeline_lib.chat.conversation import Pair, Reject, Turns

_NONCOMMERCIAL = re.compile(r"\bNC\b|non-?commercial", re.IGNORECASE)
SHORTENED = "cut behind the first answer"
NO_CONTRAST = "no pair: chosen equals rejected"
NO_RIVAL = "no pair: the other answer is blank or ends another talk"


def ranked(winner: str | None, sides: Mapping[str, Any]) -> tuple[Any, Any]:
    """The winning and the losing one of two sides, by the winner's name; a tie is a ``Reject``."""
    if winner is None or winner not in sides:
        raise Reject(f"no winner: {str(winner)[:20]}")
    return sides[winner], next(side for name, side in sides.items() if name != winner)


def first_answers(pair: Pair) -> Pair:
    """Only the answers right behind the prompt: later turns answer different conversations."""
    whole = len(pair.chosen) <= 1 and len(pair.rejected) <= 1
    notes = pair.notes if whole else (*pair.notes, SHORTENED)
    return Pair(pair.prompt, pair.chosen[:1], pair.rejected[:1], notes)


def paired(better: Turns, worse: Turns) -> Turns | Pair:
    """A pair where two conversations differ in their last answer alone; else the better, noted.

    ``worse`` may be untidy and ``better`` cut or merged: then they do not answer the same turns.
    """
    if len(worse) != len(better) or worse[:-1] != better[:-1] or not worse[-1]["content"].strip():
        return Turns(better, (*better.notes, NO_RIVAL))
    if worse[-1]["content"].strip() == better[-1]["content"].strip():
        return Turns(better, (*better.notes, NO_CONTRAST))
    return Pair(list(better[:-1]), [better[-1]], [worse[-1]], better.notes)


def wrong_answer(
    answers: Sequence[str] | None,
    finished: Sequence[bool] | None,
    *verdicts: Sequence[bool | None] | None,
) -> str | None:
    """The first finished answer that a judge calls wrong and none calls right; None without one.

    Lists run in parallel; a null list, or one that is too short, says nothing.
    """
    columns = zip_longest(*(verdict or () for verdict in (answers, finished, *verdicts)))
    for answer, complete, *judged in columns:
        if answer and complete and False in judged and True not in judged:
            return str(answer)
    return None


def flagged(moderation: Any) -> bool:
    """Whether a moderation flagged any message.

    One verdict, a list of them, or a mapping of lists are understood; null says nothing.
    """
    if isinstance(moderation, Mapping):
        found = moderation.get("flagged")
        return any(found) if isinstance(found, Sequence) else found is True
    return any(flagged(verdict) for verdict in moderation or ())


def noncommercial(licence: str | None) -> bool:
    """Whether the name of a licence says that it forbids commercial use."""
    return bool(licence and _NONCOMMERCIAL.search(licence))
