"""What coders give: rows of one width or a stream, and why a conversation is not in it."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.templates.encoding import Ids, Mask, Places

OverLength = Literal["drop", "truncate_turns", "truncate_right"]
TOO_LONG = "too long"
CUT = "cut to fit"
NO_TARGET = "no target after truncation"
NOTHING = "nothing to learn"
NO_PROMPT = "no prompt"
NO_OTHER_ORDER = "answer has no other order"
EQUAL = "equal after truncation"
REFUSED = "refused: "
"""What a reason of the chat template begins with."""

Flags = NDArray[np.bool_]
Amounts = Mapping[str, NDArray[Any]]
"""Name of a count -> a number, or whether it holds, for each conversation."""


class StreamIds(NamedTuple):
    """Conversations of a token stream, one after another, each with an end token after it.

    ``ids`` (int32): as they are stored, see ``without_loss``. ``amounts``: why a conversation is
    not in it, its ``tokens``, and those of them that answer (``trained``).
    """

    ids: Ids
    amounts: Amounts


class Fitted(NamedTuple):
    """Rows of one width, and the outcome of every conversation of the batch.

    ``ids`` (int32) and ``mask`` (int8): ``[rows, width]`` (DPO: ``[rows, 2, width]``, chosen, then
    rejected). ``lengths`` (int32): ``[rows]`` (``[rows, 2]``). ``owner`` (int64): the conversation
    of each row, out of ``conversations``. ``flags``: reason -> for each conversation, whether it
    holds, or for how many of its rows. ``more``: what is stored of each row beside these.
    """

    ids: Ids
    mask: Mask
    lengths: NDArray[np.int32]
    owner: Places
    conversations: int
    flags: Amounts
    more: tuple[Flags, ...] = ()

    @property
    def kept(self) -> Flags:
        """Whether each conversation has a row."""
        return self.rows > 0

    @property
    def rows(self) -> Places:
        """The number of rows of each conversation."""
        return np.bincount(self.owner, minlength=self.conversations).astype(np.int64)


def check_over_length(rule: str) -> None:
    """``ValueError`` unless ``rule`` is a known rule for too long conversations."""
    if rule not in get_args(OverLength):
        raise ValueError(f"over_length is {rule!r}; expected one of {get_args(OverLength)}")
