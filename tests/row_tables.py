"""Stored samples as the padded rows that a data set makes of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.token_caches.fitted import Fitted, OverLength
from pipeline_lib.token_caches.fitting import fitting

Make = Callable[[int | None], Fitted]


class RowTable(NamedTuple):
    """``ids``, ``mask``: ``[rows, width]``; of pairs ``[rows, 2, width]``. ``flags``: of
    conversations."""

    ids: NDArray[np.int32]
    mask: NDArray[np.int8]
    lengths: NDArray[np.int32]
    owner: NDArray[np.int64]
    conversations: int
    flags: dict[str, NDArray[Any]]

    @property
    def rows(self) -> NDArray[np.int64]:
        """The number of rows of each conversation."""
        return np.bincount(self.owner, minlength=self.conversations).astype(np.int64)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Whether each conversation has a row."""
        return self.rows > 0


def row_table(make: Make, width: int, rule: OverLength = "drop", pad: int = 0) -> RowTable:
    """What ``make`` stores for a width, as the rows that fit it. Turns are dropped when stored."""
    made = make(width if rule == "truncate_turns" else None)
    tokens = made.tokens
    found = fitting(made.records, tokens.sizes, width, rule)
    lengths = np.minimum(tokens.sizes, width)[found.kept].astype(np.int32)
    starts = tokens.bounds[:-1].reshape(-1, tokens.sides)[found.kept]
    ids = np.full((*lengths.shape, width), pad, np.int32)
    mask = np.zeros((*lengths.shape, width), np.int8)
    for place in np.ndindex(lengths.shape):
        here = slice(starts[place], starts[place] + lengths[place])
        ids[place][: lengths[place]] = tokens.ids[here]
        mask[place][: lengths[place]] = tokens.mask[here]
    flags = {why: np.asarray(flag).astype(np.int64) for why, flag in made.flags.items()}
    for why, flag in found.flags.items():
        more = np.bincount(made.owner, flag, made.conversations).astype(np.int64)
        flags[why] = flags.get(why, 0) + more
    sides = (ids, mask, lengths)
    if tokens.sides == 1:
        sides = (ids[:, 0], mask[:, 0], lengths[:, 0])
    return RowTable(*sides, made.owner[found.kept], made.conversations, flags)
