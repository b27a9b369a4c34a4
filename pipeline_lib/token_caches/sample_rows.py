"""Encoded samples to rows of one width. Pure.

A group is one sample, or the two of a pair. The rules for what is over the width are those of
``rows``; dropping turns happens before, because the template has to write what is left anew.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.templates.encoding import Ids, Mask, Places, spans
from pipeline_lib.token_caches.fitted import (
    CUT,
    EQUAL,
    NO_TARGET,
    NOTHING,
    REFUSED,
    TOO_LONG,
    Flags,
    OverLength,
)

PROMPTS_DIFFER = f"{REFUSED}the prompt is written otherwise on the two sides"


class SampleTokens(NamedTuple):
    """Tokens of samples, one after another, ``sides`` samples to a group.

    ``ids`` (int32), ``mask`` (int8). ``bounds`` (int64): sample ``i`` has the places
    ``bounds[i]:bounds[i + 1]``.
    """

    ids: Ids
    mask: Mask
    bounds: Places
    sides: int

    @property
    def sizes(self) -> Places:
        """Tokens of each sample: ``[groups, sides]``."""
        return np.diff(self.bounds).reshape(-1, self.sides)

    @property
    def learned(self) -> Flags:
        """Whether loss falls on each side of a group."""
        sums = np.concatenate([[0], np.cumsum(self.mask, dtype=np.int64)])[self.bounds]
        learned: Flags = np.all(np.diff(sums).reshape(-1, self.sides) > 0, axis=1)
        return learned


class GroupRows(NamedTuple):
    """Rows of the groups that are ``kept``, and the outcome of every group.

    ``ids`` (int32) and ``mask`` (int8): ``[rows, sides, width]``. ``lengths`` (int32): ``[rows,
    sides]``. ``flags``: reason -> whether it holds for each group.
    """

    ids: Ids
    mask: Mask
    lengths: NDArray[np.int32]
    kept: Flags
    flags: dict[str, Flags]


def fit(
    tokens: SampleTokens, usable: Flags, cut: Flags, width: int, rule: OverLength, pad: int
) -> GroupRows:
    """Rows for the usable groups that fit. ``cut``: the groups that have lost turns already."""
    learns = usable & tokens.learned
    over: Flags = np.any(tokens.sizes > width, axis=1)
    fits = learns & (~over | (rule == "truncate_right"))
    ids, mask, lengths = _padded(tokens, fits, width, pad)
    target: Flags = np.all(mask.max(axis=2, initial=0) > 0, axis=1)
    same, equal = np.ones(len(ids), bool), np.zeros(len(ids), bool)
    if tokens.sides == 2:
        same, equal = _same_prompts(ids, mask), np.all(ids[:, 0] == ids[:, 1], axis=1)
    good = target & same & ~equal
    flags = {
        NOTHING: usable & ~learns,
        TOO_LONG: learns & ~fits,
        CUT: (over | cut) & _spread(good, fits),
        NO_TARGET: _spread(~target, fits),
        PROMPTS_DIFFER: _spread(target & ~same, fits),
        EQUAL: _spread(target & same & equal, fits),
    }
    if tokens.sides == 1 or not flags[PROMPTS_DIFFER].any():
        del flags[PROMPTS_DIFFER]
    if tokens.sides == 1:
        del flags[EQUAL]
    return GroupRows(ids[good], mask[good], lengths[good], _spread(good, fits), flags)


def _spread(values: Flags, there: Flags) -> Flags:
    """Values of some groups as values of all; False for the others."""
    spread = np.zeros(len(there), bool)
    spread[there] = values
    return spread


def _padded(
    tokens: SampleTokens, groups: Flags, width: int, pad: int
) -> tuple[Ids, Mask, NDArray[np.int32]]:
    """The rows of some groups, cut at the width."""
    chosen = np.flatnonzero(np.repeat(groups, tokens.sides))
    lengths = np.minimum(np.diff(tokens.bounds)[chosen], width)
    places = spans(tokens.bounds[chosen], lengths)
    there = np.arange(width) < lengths[:, None]
    ids = np.full((len(chosen), width), pad, np.int32)
    mask = np.zeros((len(chosen), width), np.int8)
    ids[there], mask[there] = tokens.ids[places], tokens.mask[places]
    shape = (len(chosen) // tokens.sides, tokens.sides, width)
    sizes = lengths.astype(np.int32).reshape(-1, tokens.sides)
    return ids.reshape(shape), mask.reshape(shape), sizes


def _same_prompts(ids: Ids, mask: Mask) -> Flags:
    """For each pair, whether its sides are equal up to the first place with loss."""
    first = mask.argmax(axis=2)
    before = np.arange(ids.shape[2]) < first[:, :1]
    differs: Flags = np.any(before & (ids[:, 0] != ids[:, 1]), axis=1)
    same: Flags = (first[:, 0] == first[:, 1]) & ~differs
    return same
