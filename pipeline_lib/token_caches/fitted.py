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


class SampleTokens(NamedTuple):
    """Tokens of samples, one after another. A group is one sample, or the two of a pair.

    ``ids`` (int32), ``mask`` (int8). ``bounds`` (int64): sample ``i`` has the places
    ``bounds[i]:bounds[i + 1]``. ``sides``: samples in a group.
    """

    ids: Ids
    mask: Mask
    bounds: Places
    sides: int

    @property
    def sizes(self) -> Places:
        """Tokens of each sample: ``[groups, sides]``."""
        return np.diff(self.bounds).reshape(-1, self.sides)


class Fitted(NamedTuple):
    """Samples to be stored, and the outcome of every conversation of the batch.

    ``tokens``: the samples. ``records``: one for each group (see ``RowFiles``), whose ends count
    from the first token here. ``owner`` (int64): the conversation of each group, out of
    ``conversations``. ``flags``: reason -> for each conversation, whether it holds, or for how many
    of its groups.
    """

    tokens: SampleTokens
    records: NDArray[np.void]
    owner: Places
    conversations: int
    flags: Amounts

    @property
    def kept(self) -> Flags:
        """Whether each conversation has a sample."""
        return np.bincount(self.owner, minlength=self.conversations) > 0


def check_over_length(rule: str) -> None:
    """``ValueError`` unless ``rule`` is a known rule for too long conversations."""
    if rule not in get_args(OverLength):
        raise ValueError(f"over_length is {rule!r}; expected one of {get_args(OverLength)}")
