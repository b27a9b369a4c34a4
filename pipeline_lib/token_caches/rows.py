"""Encoded turns to samples, for SFT and DPO.

With a width, the oldest turns of what is longer are dropped, up to a user turn; the system turn
stays. Without one, samples are stored whole, whatever their length.

A conversation without a trained token is always left out, whether none of its turns is to be
learned or dropping turns left none. Every reason is counted.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.chat.store import ConversationBatch
from pipeline_lib.records import ROLES, TurnBatch
from pipeline_lib.templates.encoding import (
    UNUSABLE,
    Mask,
    Places,
    Template,
    TokenTurns,
    encode_turns,
    spans,
)
from pipeline_lib.token_caches.fitted import (
    NO_OTHER_ORDER,
    NO_PROMPT,
    NO_TARGET,
    NOTHING,
    TOO_LONG,
    Fitted,
    Flags,
    SampleTokens,
)
from pipeline_lib.token_caches.sample_rows import to_store

_SYSTEM, _USER = ROLES.index("system"), ROLES.index("user")


def sft_rows(template: Template, batch: TurnBatch, width: int | None = None) -> Fitted:
    """One sample for each conversation; with a width, for each that fits or can be made to."""
    tokens = encode_turns(template, batch)
    offsets = batch.offsets
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    unusable, usable = unusable_rows(tokens, owner, len(offsets) - 1)
    learned = _sums(tokens.mask, tokens.bounds[offsets]) > 0
    keep_turn = np.ones(len(batch.roles), bool)
    over, fits = np.zeros_like(usable), np.ones_like(usable)
    if width is not None:
        over = tokens.bounds[offsets[1:]] - tokens.bounds[offsets[:-1]] > width
        for row in np.flatnonzero(over).tolist():
            first, last = int(offsets[row]), int(offsets[row + 1]) - 1
            room = width - int(np.diff(tokens.bounds)[last])
            fits[row] = _drop_oldest(tokens, batch.roles, (first, last), room, keep_turn)
    turns = np.flatnonzero(keep_turn & fits[owner])
    samples = _samples(tokens, turns, owner[turns], len(usable), 1)
    return _fitted(samples, (usable, learned, fits, over), unusable, width)


def _fitted(
    samples: SampleTokens,
    outcome: tuple[Flags, Flags, Flags, Flags],
    flags: dict[str, Flags],
    width: int | None,
) -> Fitted:
    """``outcome`` of each conversation: it is usable, learned before turns were dropped, fits, and
    was over the width."""
    usable, learned, fits, over = outcome
    stored = to_store(samples, usable & learned & fits, over, width)
    emptied = stored.flags.pop(NOTHING)  # of what was learned, dropping turns left nothing
    found = {**flags, NOTHING: usable & ~learned, **stored.flags}
    if width is not None:
        found |= {TOO_LONG: usable & learned & ~fits, NO_TARGET: emptied}
    owner = np.flatnonzero(stored.kept)
    return Fitted(stored.tokens, stored.records, owner, len(usable), found)


def unusable_rows(tokens: TokenTurns, owner: Places, count: int) -> tuple[dict[str, Flags], Flags]:
    """Reason -> the conversations that hold a turn which can not be used, each under one reason,
    for the reasons that there are; and the conversations that hold none.

    ``owner``: the conversation of each turn, out of ``count``.
    """
    usable, flags = np.ones(count, bool), dict[str, Flags]()
    for reason in UNUSABLE:
        found = np.zeros(count, bool)
        found[owner[tokens.unusable.get(reason, np.empty(0, np.int64))]] = True
        found &= usable
        usable &= ~found
        if found.any():
            flags[reason] = found
    return flags, usable


def dpo_rows(template: Template, batch: ConversationBatch, width: int | None = None) -> Fitted:
    """Two samples for each pair: one prompt, two continuations, loss only on the continuations.

    ``batch`` has a rejected continuation for every conversation that can have one. A prompt is
    encoded once, and both samples use its ids.
    """
    both = _joined(batch)
    tokens = encode_turns(template, both)
    owner, is_prompt = _owners(batch)
    tokens.mask[np.repeat(is_prompt, np.diff(tokens.bounds))] = 0
    has_prompt, has_rejected = batch.prompt > 0, np.diff(batch.rejected.offsets) > 0
    learned = _learned_pairs(tokens, batch)
    unusable, sound = unusable_rows(tokens, owner, len(has_prompt))
    pairs = sound & has_prompt & has_rejected
    keep_turn = np.ones(len(both.roles), bool)
    over, fits = np.zeros_like(sound), np.ones_like(sound)
    if width is not None:
        over, fits = _fit_pairs(tokens, both, batch, (pairs & learned, keep_turn), width)
    takes, own = keep_turn & fits[owner], np.arange(len(owner)) < len(batch.turns.roles)
    sides = [np.flatnonzero(side) for side in (takes & own, takes & (is_prompt | ~own))]
    turns = np.concatenate(sides)
    sample = np.concatenate([2 * owner[sides[0]], 2 * owner[sides[1]] + 1])
    order = np.argsort(sample, kind="stable")  # prompt before continuation
    samples = _samples(tokens, turns[order], sample[order], 2 * len(pairs), 2)
    flags = {
        **unusable,
        NO_PROMPT: sound & ~has_prompt,
        NO_OTHER_ORDER: sound & has_prompt & ~has_rejected,
    }
    return _fitted(samples, (pairs, learned, fits, over), flags, width)


def _fit_pairs(
    tokens: TokenTurns,
    both: TurnBatch,
    batch: ConversationBatch,
    flags: tuple[Flags, Flags],
    width: int,
) -> tuple[Flags, Flags]:
    """Which pairs are over the width, and which fit; unmarks dropped turns in ``flags[1]``."""
    usable, keep_turn = flags
    first = batch.turns.offsets[:-1]
    answer = tokens.bounds[first + batch.prompt]
    chosen = tokens.bounds[batch.turns.offsets[1:]] - answer
    rejected = np.diff(tokens.bounds[len(batch.turns.roles) + batch.rejected.offsets])
    longest = np.maximum(chosen, rejected)
    over = usable & (answer - tokens.bounds[first] + longest > width)
    fits = ~over
    for row in np.flatnonzero(over).tolist():
        prompt = (int(first[row]), int(first[row]) + int(batch.prompt[row]))
        room = width - int(longest[row])
        fits[row] = _drop_oldest(tokens, both.roles, prompt, room, keep_turn)
    return over, fits


def _learned_pairs(tokens: TokenTurns, batch: ConversationBatch) -> Flags:
    """For each pair, whether loss falls on both of its sides."""
    own = len(batch.turns.roles)
    ends = (tokens.bounds[batch.turns.offsets], tokens.bounds[own + batch.rejected.offsets])
    learned = (_sums(tokens.mask, bounds) > 0 for bounds in ends)
    return np.logical_and(*learned)


def _sums(mask: Mask, bounds: Places) -> Places:
    """The sums of a mask between neighbouring bounds."""
    return np.diff(np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])[bounds])


def _joined(batch: ConversationBatch) -> TurnBatch:
    """All turns of a batch and then all rejected turns, so that one call encodes them."""
    turns, rejected = batch.turns, batch.rejected
    return TurnBatch(
        turns.contents + rejected.contents,
        np.concatenate([turns.roles, rejected.roles]),
        np.concatenate([turns.learn, rejected.learn]),
        np.concatenate([turns.offsets, len(turns.roles) + rejected.offsets[1:]]),
        turns.fields + rejected.fields,
        turns.tools + rejected.tools,
    )


def _owners(batch: ConversationBatch) -> tuple[Places, Flags]:
    """For every turn of ``_joined``: its conversation, and whether it belongs to the prompt."""
    own = np.diff(batch.turns.offsets)
    rows = np.repeat(np.arange(len(own)), own)
    place = np.arange(len(rows)) - batch.turns.offsets[rows]
    rejected = np.diff(batch.rejected.offsets)
    rejected_rows = np.repeat(np.arange(len(rejected)), rejected)
    is_prompt = np.concatenate([place < batch.prompt[rows], np.zeros(len(rejected_rows), bool)])
    return np.concatenate([rows, rejected_rows]), is_prompt


def _drop_oldest(
    tokens: TokenTurns, roles: NDArray[np.int8], prompt: tuple[int, int], room: int, keep: Flags
) -> bool:
    """Drop the oldest turns of a prompt until ``room`` tokens are enough.

    False if the last user turn alone does not fit. A drop goes up to the next user turn; a system
    turn at the start stays.
    """
    first, stop = prompt
    sizes = np.diff(tokens.bounds[first : stop + 1])
    head = first + int(first < stop and roles[first] == _SYSTEM)
    fixed = int(sizes[: head - first].sum())
    starts = [turn for turn in range(head, stop) if roles[turn] == _USER]
    for start in starts:
        if fixed + int(sizes[start - first :].sum()) <= room:
            keep[head:start] = False
            return True
    return False


def _samples(
    tokens: TokenTurns, turns: Places, samples: Places, count: int, sides: int
) -> SampleTokens:
    """The samples that turns make, which are sorted by the number of their sample."""
    sizes = np.diff(tokens.bounds)[turns]
    places = spans(tokens.bounds[turns], sizes)
    lengths = np.bincount(samples, sizes, count).astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return SampleTokens(tokens.ids[places], tokens.mask[places], bounds, sides)
