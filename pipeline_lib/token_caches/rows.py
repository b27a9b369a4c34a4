"""Encoded turns to rows of one width, for SFT and DPO, with a rule for longer conversations.

    drop            a conversation over the width is left out (the default)
    truncate_turns  its oldest turns are dropped, up to a user turn; the system turn stays
    truncate_right  its end is cut off

A conversation without a trained token in its row is always left out, whether none of its turns is
to be learned or a cut left none. Every reason is counted.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.chat.store import ConversationBatch
from pipeline_lib.records import ROLES, TurnBatch
from pipeline_lib.templates.encoding import (
    UNUSABLE,
    Ids,
    Mask,
    Places,
    Template,
    TokenTurns,
    encode_turns,
    spans,
)
from pipeline_lib.token_caches.fitted import (
    CUT,
    EQUAL,
    NO_OTHER_ORDER,
    NO_PROMPT,
    NO_TARGET,
    NOTHING,
    TOO_LONG,
    Fitted,
    Flags,
    OverLength,
)

_SYSTEM, _USER = ROLES.index("system"), ROLES.index("user")


def sft_rows(template: Template, batch: TurnBatch, width: int, rule: OverLength) -> Fitted:
    """One row for each conversation that fits, if necessary after the rule has cut it."""
    tokens = encode_turns(template, batch)
    offsets = batch.offsets
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    unusable, usable = unusable_rows(tokens, owner, len(offsets) - 1)
    over = tokens.bounds[offsets[1:]] - tokens.bounds[offsets[:-1]] > width
    keep_turn = np.ones(len(batch.roles), bool)
    learned = _sums(tokens.mask, tokens.bounds[offsets]) > 0
    if rule == "truncate_turns":
        kept = ~over
        for row in np.flatnonzero(over).tolist():
            first, last = int(offsets[row]), int(offsets[row + 1]) - 1
            room = width - int(np.diff(tokens.bounds)[last])
            kept[row] = _drop_oldest(tokens, batch.roles, (first, last), room, keep_turn)
    else:
        kept = ~over if rule == "drop" else np.ones_like(over)
    kept &= usable
    turns = np.flatnonzero(keep_turn & kept[owner])
    ids, mask, lengths = _rows(template, tokens, turns, owner[turns], len(over), width)
    trained = mask.any(axis=1)
    flags = {
        **unusable,
        NOTHING: usable & ~learned,
        TOO_LONG: usable & learned & ~kept,
        CUT: over & kept & trained,
        NO_TARGET: learned & kept & ~trained,
    }
    kept &= trained
    owners = np.flatnonzero(kept)
    return Fitted(ids[kept], mask[kept], lengths[kept], owners, len(kept), flags)


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


def dpo_rows(template: Template, batch: ConversationBatch, width: int, rule: OverLength) -> Fitted:
    """Two rows for each pair: one prompt, two continuations, loss only on the continuations.

    ``batch`` has a rejected continuation for every conversation that can have one. A prompt is
    encoded once, and both rows use its ids.
    """
    both = _joined(batch)
    tokens = encode_turns(template, both)
    owner, is_prompt = _owners(batch)
    tokens.mask[np.repeat(is_prompt, np.diff(tokens.bounds))] = 0
    has_prompt, has_rejected = batch.prompt > 0, np.diff(batch.rejected.offsets) > 0
    learned = _learned_pairs(tokens, batch)
    unusable, sound = unusable_rows(tokens, owner, len(has_prompt))
    usable = sound & has_prompt & has_rejected & learned
    keep_turn = np.ones(len(both.roles), bool)
    over, kept = _fit_pairs(tokens, both, batch, (usable, keep_turn), width, rule)
    takes, own = keep_turn & kept[owner], np.arange(len(owner)) < len(batch.turns.roles)
    sides = []
    for side in (takes & own, takes & (is_prompt | ~own)):
        turns = np.flatnonzero(side)
        turns = turns[np.argsort(owner[turns], kind="stable")]  # prompt before continuation
        sides.append(_rows(template, tokens, turns, owner[turns], len(kept), width))
    (ids, mask, lengths), (ids_r, mask_r, lengths_r) = sides
    learns = mask.any(axis=1) & mask_r.any(axis=1)
    differs = (ids != ids_r).any(axis=1) | (lengths != lengths_r)
    good = kept & learns & differs
    flags = {
        **unusable,
        NO_PROMPT: sound & ~has_prompt,
        NO_OTHER_ORDER: sound & has_prompt & ~has_rejected,
        NOTHING: sound & has_prompt & has_rejected & ~learned,
        TOO_LONG: usable & ~kept,
        CUT: over & good,
        NO_TARGET: kept & ~learns,
        EQUAL: kept & learns & ~differs,
    }
    return Fitted(
        np.stack([ids, ids_r], axis=1)[good],
        np.stack([mask, mask_r], axis=1)[good],
        np.stack([lengths, lengths_r], axis=1)[good],
        np.flatnonzero(good),
        len(good),
        flags,
    )


def _fit_pairs(
    tokens: TokenTurns,
    both: TurnBatch,
    batch: ConversationBatch,
    flags: tuple[Flags, Flags],
    width: int,
    rule: OverLength,
) -> tuple[Flags, Flags]:
    """Which pairs are over the width, and which are kept; unmarks dropped turns in ``flags[1]``."""
    usable, keep_turn = flags
    first = batch.turns.offsets[:-1]
    answer = tokens.bounds[first + batch.prompt]
    chosen = tokens.bounds[batch.turns.offsets[1:]] - answer
    rejected = np.diff(tokens.bounds[len(batch.turns.roles) + batch.rejected.offsets])
    longest = np.maximum(chosen, rejected)
    over = usable & (answer - tokens.bounds[first] + longest > width)
    if rule == "truncate_right":
        return over, usable
    kept = usable & ~over
    if rule == "truncate_turns":
        for row in np.flatnonzero(over).tolist():
            prompt = (int(first[row]), int(first[row]) + int(batch.prompt[row]))
            room = width - int(longest[row])
            kept[row] = _drop_oldest(tokens, both.roles, prompt, room, keep_turn)
    return over, kept


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


def _rows(
    template: Template, tokens: TokenTurns, turns: Places, rows: Places, count: int, width: int
) -> tuple[Ids, Mask, NDArray[np.int32]]:
    """Padded rows from turns that are sorted by row, cut at the width."""
    sizes = np.diff(tokens.bounds)[turns]
    lengths = np.bincount(rows, sizes, count).astype(np.int64)
    places = spans(tokens.bounds[turns], sizes)
    if (lengths > width).any():
        place_in_row = spans(np.zeros(count, np.int64), lengths)
        places = places[place_in_row < width]
        lengths = np.minimum(lengths, width)
    there = np.arange(width) < lengths[:, None]
    ids = np.full((count, width), template.pad, np.int32)
    mask = np.zeros((count, width), np.int8)
    ids[there], mask[there] = tokens.ids[places], tokens.mask[places]
    return ids, mask, lengths.astype(np.int32)
