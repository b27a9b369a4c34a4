"""Everything a ``_norm_<name>`` cell needs: small tools that turn a row into turns.

    def _norm_wildchat(row):
        return tidy(read_turns(row["conversation"]))

A normalizer returns ``Turns`` (a list of ``{"role", "content"}``), a ``Pair`` or a ``Reject``.
"""

from pipeline_lib.chat.conversation import Pair, Turns, check_result
from pipeline_lib.chat.messages import read_turns
from pipeline_lib.chat.preference_labels import (
    first_answers,
    flagged,
    noncommercial,
    paired,
    ranked,
    wrong_answer,
)
from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.thoughts import thought
from pipeline_lib.chat.transcripts import detokenised, interleaved, transcript
from pipeline_lib.chat.turns import (
    assistant,
    canonical_thoughts,
    cut_bytes,
    dialogue,
    document,
    preference,
    tidy,
    user,
)

__all__ = [
    "Pair",
    "Reject",
    "Turns",
    "assistant",
    "canonical_thoughts",
    "check_result",
    "cut_bytes",
    "detokenised",
    "dialogue",
    "document",
    "first_answers",
    "flagged",
    "interleaved",
    "noncommercial",
    "paired",
    "preference",
    "ranked",
    "read_turns",
    "thought",
    "tidy",
    "transcript",
    "user",
    "wrong_answer",
]
