"""Labels of a row: which answer won, which answer is wrong, unsafe text, licence. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from pipeline_lib.chat.conversation import Pair, Turns, same_text, says_nothing, spoken
from pipeline_lib.chat.reject import Reject

_NONCOMMERCIAL = re.compile(r"\bNC\b|non-?commercial", re.IGNORECASE)
SHORTENED = "cut behind the first answer"
NO_CONTRAST = "no pair: chosen equals rejected"
NO_RIVAL = "no pair: the other answer is blank or ends another talk"


def ranked(winner: str | None, sides: Mapping[str, Any]) -> tuple[Any, Any]:
    """The winning and the losing side; ``sides`` maps two names to values.

    ``Reject`` if ``winner`` is not one of the names, as for a tie.
    """
    if winner is None or winner not in sides:
        raise Reject(f"no winner: {str(winner)[:20]}")
    return sides[winner], next(side for name, side in sides.items() if name != winner)


def first_answers(pair: Pair) -> Pair:
    """The pair with only the first turn of each side, and a note if it was cut.

    Later turns belong to different conversations, so they can not be compared.
    """
    whole = len(pair.chosen) <= 1 and len(pair.rejected) <= 1
    notes = pair.notes if whole else (*pair.notes, SHORTENED)
    return replace(pair, chosen=pair.chosen[:1], rejected=pair.rejected[:1], notes=notes)


def paired(better: Turns, worse: Turns) -> Turns | Pair:
    """A pair if two conversations differ only in their last answer, else ``better`` with a note.

    They may differ elsewhere because only ``better`` was cut or merged; then their answers do not
    follow the same turns.
    """
    asked_same = all(map(same_text, worse[:-1], better[:-1])) and len(worse) == len(better)
    if not asked_same or better.tools != worse.tools or says_nothing(worse[-1]):
        return Turns(better, (*better.notes, NO_RIVAL), better.tools)
    if spoken(worse[-1]) == spoken(better[-1]):
        return Turns(better, (*better.notes, NO_CONTRAST), better.tools)
    return Pair(list(better[:-1]), [better[-1]], [worse[-1]], better.notes, better.tools)


def wrong_answer(
    answers: Sequence[str] | None,
    finished: Sequence[bool] | None,
    *verdicts: Sequence[bool | None] | None,
) -> str | None:
    """The first finished answer that some verdict calls wrong and none calls right, else None.

    All lists are parallel. A verdict is True (right), False (wrong) or None. A missing list, or the
    missing end of a short list, counts as None.
    """
    columns = zip_longest(*(verdict or () for verdict in (answers, finished, *verdicts)))
    for answer, complete, *judged in columns:
        if answer and complete and False in judged and True not in judged:
            return str(answer)
    return None


def flagged(moderation: Any) -> bool:
    """Whether a moderation result flags any message.

    It may be one verdict (a mapping with ``flagged``), a list of verdicts, a mapping of lists, or
    None, which flags nothing.
    """
    if isinstance(moderation, Mapping):
        found = moderation.get("flagged")
        return any(found) if isinstance(found, Sequence) else found is True
    return any(flagged(verdict) for verdict in moderation or ())


def noncommercial(licence: str | None) -> bool:
    """Whether a licence forbids commercial use, judged by its name; False for None."""
    return bool(licence and _NONCOMMERCIAL.search(licence))
