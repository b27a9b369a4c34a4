"""Encoded samples to what is stored of them. Pure.

Samples are stored whole, whatever their length: what fits a width is told when they are read (see
``fitting``). Only where turns are dropped to make a sample fit is the width known here, because the
template has to write what is left anew.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.templates.encoding import Places, spans
from pipeline_lib.token_caches.fitted import (
    CUT,
    EQUAL,
    NOTHING,
    REFUSED,
    TOO_LONG,
    Flags,
    SampleTokens,
)
from pipeline_lib.token_caches.layout import record_dtype

PROMPTS_DIFFER = f"{REFUSED}the prompt is written otherwise on the two sides"
_NOWHERE = np.iinfo(np.int32).max


class StoredGroups(NamedTuple):
    """What is stored of the groups that are ``kept``, and the outcome of every group.

    ``flags``: reason -> whether it holds for each group.
    """

    tokens: SampleTokens
    records: NDArray[np.void]
    kept: Flags
    flags: dict[str, Flags]


def to_store(
    tokens: SampleTokens, usable: Flags, cut: Flags | None = None, width: int | None = None
) -> StoredGroups:
    """The usable groups that teach something.

    ``cut``: the groups that have lost turns, so that they fit ``width``.
    """
    records = _records(tokens)
    learns = usable & np.all(records["trained"] > 0, axis=1)
    over = np.zeros(len(records), bool) if width is None else _over(tokens, width)
    good = learns & ~over
    flags = {NOTHING: usable & ~learns}
    if tokens.sides == 2:
        same, equal = _same_prompts(records), records["differs"] == _NOWHERE
        found = {PROMPTS_DIFFER: good & ~same, EQUAL: good & same & equal}
        flags |= {why: which for why, which in found.items() if why == EQUAL or which.any()}
        good &= same & ~equal
    if width is not None and cut is not None:
        flags |= {TOO_LONG: learns & over, CUT: good & cut}
    return StoredGroups(_only(tokens, good), _with_ends(tokens, records, good), good, flags)


def _over(tokens: SampleTokens, width: int) -> Flags:
    return np.any(tokens.sizes > width, axis=1)  # type: ignore[no-any-return]


def _records(tokens: SampleTokens) -> NDArray[np.void]:
    """A record of each group, without ends and conversation."""
    sizes = tokens.sizes
    records = np.zeros(len(sizes), record_dtype(tokens.sides))
    sums = np.concatenate([[0], np.cumsum(tokens.mask, dtype=np.int64)])
    trained = np.flatnonzero(tokens.mask)
    starts = tokens.bounds[:-1]
    place = np.searchsorted(trained, starts)
    first = np.append(trained, len(tokens.mask))[place] - starts
    records["trained"] = np.diff(sums[tokens.bounds]).reshape(sizes.shape)
    records["first"] = np.minimum(first.reshape(sizes.shape), sizes)
    if tokens.sides == 2:
        records["differs"] = _first_differences(tokens)
    return records


def _first_differences(tokens: SampleTokens) -> NDArray[np.int32]:
    """For each pair the first token at which its sides differ; ``_NOWHERE`` if they are equal."""
    sizes, starts = tokens.sizes, tokens.bounds[:-1].reshape(-1, 2)
    common = sizes.min(axis=1)
    one, other = (spans(starts[:, side], common) for side in (0, 1))
    unequal = np.flatnonzero(tokens.ids[one] != tokens.ids[other])
    begins = np.cumsum(common) - common
    place = np.append(unequal, one.size + 1)[np.searchsorted(unequal, begins)] - begins
    found = np.where(place < common, place, common)
    equal = (found == sizes[:, 0]) & (found == sizes[:, 1])
    return np.where(equal, _NOWHERE, found).astype(np.int32)


def _same_prompts(records: NDArray[np.void]) -> Flags:
    """For each pair, whether its sides are equal up to the first token with loss."""
    first = records["first"]
    same: Flags = (first[:, 0] == first[:, 1]) & (records["differs"] >= first[:, 0])
    return same


def _only(tokens: SampleTokens, groups: Flags) -> SampleTokens:
    """The tokens of some groups."""
    if groups.all():
        return tokens
    chosen = np.repeat(groups, tokens.sides)
    sizes = np.diff(tokens.bounds)
    there = np.repeat(chosen, sizes)
    bounds = np.concatenate([[0], np.cumsum(sizes[chosen])]).astype(np.int64)
    return SampleTokens(tokens.ids[there], tokens.mask[there], bounds, tokens.sides)


def _with_ends(tokens: SampleTokens, records: NDArray[np.void], groups: Flags) -> NDArray[np.void]:
    found = records[groups]
    ends: Places = np.cumsum(tokens.sizes[groups].ravel())
    found["end"] = ends.reshape(-1, tokens.sides)
    return found
