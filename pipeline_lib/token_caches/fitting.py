"""Which stored rows fit a width, by the rule for those that do not. Pure.

    drop            a conversation over the width is left out (the default)
    truncate_turns  its oldest turns are dropped before, so a stored row fits
    truncate_right  its end is cut off when it is read

A row without a trained token in it is left out, and so is a pair that a cut makes equal.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.templates.encoding import Places
from pipeline_lib.token_caches.fitted import CUT, EQUAL, NO_TARGET, TOO_LONG, Flags, OverLength


class Fitting(NamedTuple):
    """``kept``: the records that fit. ``flags``: reason -> whether it holds for each record."""

    kept: Flags
    flags: dict[str, Flags]


def fitting(records: NDArray[np.void], sizes: Places, width: int, rule: OverLength) -> Fitting:
    """``sizes`` (int64 ``[records, sides]``): the tokens of each row."""
    over: Flags = np.any(sizes > width, axis=1)
    cuts = rule == "truncate_right"
    target: Flags = np.all(records["first"] < width, axis=1) if cuts else np.ones_like(over)
    is_pair = sizes.shape[1] == 2
    equal = over & (records["differs"] >= width) if cuts and is_pair else np.zeros_like(over)
    kept = target & ~equal if cuts else ~over
    flags = {TOO_LONG: over & (not cuts), CUT: over & kept, NO_TARGET: ~target}
    return Fitting(kept, {**flags, EQUAL: target & equal} if is_pair else flags)
