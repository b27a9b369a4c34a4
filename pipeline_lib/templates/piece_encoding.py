"""Pieces of rendered conversations to token ids, and which of them the model generates.

Control tokens are inserted by number. All text between two of them is encoded as one by a
tokenizer that does not match them, so a control token in data stays text, and merges are those of
the whole text. All work per token is numpy, on all conversations of a batch at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.errors import TokenizerError
from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.encoding import SPELLS_MARK, renew_bytes
from pipeline_lib.templates.layouts import (
    NO_TURN,
    RUN,
    FixedTokens,
    LaidPiece,
    Layout,
    layout_of,
)
from pipeline_lib.tokenization import added_tokens
from pipeline_lib.tokenization.probing import ProbedEncoder
from pipeline_lib.tokenization.reference import Encoded, Encoder
from pipeline_lib.tokenization.refusals import NO_TOKENS, NOT_ENCODABLE, encode_each
from pipeline_lib.tokenization.special_marks import with_special_marks
from pipeline_lib.tokenization.spelled_sizes import SpelledSizes
from pipeline_lib.tokenization.tokenizer import Tokenizer

PieceIds = NDArray[np.int32]
PieceTurns = NDArray[np.int32]
Offsets = NDArray[np.int64]
LaidTexts = tuple[Layout, Sequence[str]]
"""A layout, and the texts of the pieces of one conversation."""


@dataclass(frozen=True)
class EncodedPieces:
    """Conversations, one after another.

    ``ids`` (int32). ``turns`` (int32): index of the message that generates the token, else -1.
    ``bounds`` (int64): conversation ``i`` has the places ``bounds[i]:bounds[i + 1]``. ``shared``
    (int64): for each, tokens that hold both text that is generated and text that is not; they are
    not trained. ``unusable``: reason -> conversations that can not have ids.
    """

    ids: PieceIds
    turns: PieceTurns
    bounds: Offsets
    shared: Offsets
    unusable: dict[str, Offsets] = field(default_factory=dict)


@dataclass(frozen=True)
class _Runs:
    """The runs of a batch. ``texts`` (UTF-8). ``part_bytes``, ``part_turns``: of all parts, in
    order; run ``i`` has the parts ``parts[i]:parts[i + 1]``. ``owner``: the conversation of each.
    """

    texts: list[bytes]
    part_bytes: Offsets
    part_turns: PieceTurns
    parts: Offsets
    owner: Offsets


class PieceEncoder:
    """Encodes pieces for one tokenizer and its control tokens.

    ``kind``: which encoder, as ``choose_encoder`` takes it. ``TokenizerError`` if a control token
    has no id of its own, or takes white space or a word's end along when it is matched.
    """

    def __init__(self, tokenizer: Tokenizer, control: ControlTokens, kind: str = "auto") -> None:
        self._control = control
        self._ids = {text: tokenizer.token_id(text) for text in control.texts}
        _check_flags(tokenizer, control)
        bare = with_special_marks(tokenizer, control.texts)
        chosen = bare.encoder(kind, renew_bytes=renew_bytes(tokenizer))
        self._encoder: Encoder = ProbedEncoder(bare.reference, chosen)
        self._bare, self._whole = bare.reference, tokenizer.reference
        self._sizes = SpelledSizes(bare.reference, tokenizer.vocab_bound)
        self._is_mark = np.zeros(tokenizer.vocab_bound, bool)
        self._is_mark[list(self._ids.values())] = True

    def layout(self, pieces: Sequence[LaidPiece]) -> Layout:
        """The layout of pieces, and of all others of their skeleton."""
        return layout_of(pieces, self._control, self._ids, self._encode_fixed)

    def _encode_fixed(self, layout: Layout) -> FixedTokens | None:
        """By the reference: no probe of the fast encoder is spent on text of templates."""
        found = self._encoded([(layout, ())], self._bare)
        if found.unusable or found.shared.any():
            return None
        return found.ids.tolist(), found.turns.tolist()

    def encode(self, conversations: Sequence[LaidTexts]) -> EncodedPieces:
        """Ids and turns of several conversations, all their texts in one call."""
        return self._encoded(conversations, self._encoder)

    def _encoded(self, conversations: Sequence[LaidTexts], encoder: Encoder) -> EncodedPieces:
        runs = _runs_of(conversations)
        encoded, refused = encode_each(encoder, runs.texts)
        atoms = _joined([layout.atoms for layout, _ in conversations], np.int64)
        is_run = atoms == RUN
        sizes = np.ones(len(atoms), np.int64)
        sizes[is_run] = np.diff(encoded.offsets)
        in_run = np.repeat(is_run, sizes)
        ids, turns = np.empty(len(in_run), np.int32), np.empty(len(in_run), np.int32)
        ids[in_run], ids[~in_run] = encoded.ids, atoms[~is_run]
        turns[in_run], shared = self._turns(runs, encoded)
        turns[~in_run] = _joined([layout.fixed_turns for layout, _ in conversations], np.int32)
        return EncodedPieces(
            ids,
            turns,
            _bounds(sizes, [len(layout.atoms) for layout, _ in conversations]),
            np.bincount(runs.owner, shared, len(conversations)).astype(np.int64),
            self._unusable(runs, encoded, refused),
        )

    def _unusable(
        self, runs: _Runs, encoded: Encoded, refused: dict[int, str]
    ) -> dict[str, Offsets]:
        empty = np.flatnonzero(np.diff(encoded.offsets) == 0).tolist()
        lost = [n for n in empty if n not in refused and runs.texts[n].strip()]
        forged = np.flatnonzero(self._is_mark[encoded.ids])
        spelled = np.searchsorted(encoded.offsets, forged, side="right") - 1
        found = {
            NOT_ENCODABLE: np.array(sorted(refused), np.int64),
            NO_TOKENS: np.array(lost, np.int64),
            SPELLS_MARK: spelled,
        }
        return {why: np.unique(runs.owner[n]) for why, n in found.items() if len(n)}

    def _turns(self, runs: _Runs, encoded: Encoded) -> tuple[PieceTurns, Offsets]:
        """The turn of each token, none for one over two turns; and how many of these a run has."""
        if not len(encoded.ids):
            return np.empty(0, np.int32), np.zeros(len(runs.texts), np.int64)
        starts, stops = self._places(runs, encoded)
        ends = np.cumsum(runs.part_bytes)
        turn = runs.part_turns[_parts_at(starts, ends)]
        other = runs.part_turns[_parts_at(np.maximum(stops - 1, starts), ends)]
        differs = np.concatenate([[0], np.cumsum(turn != other)])[encoded.offsets]
        return np.where(turn == other, turn, NO_TURN).astype(np.int32), np.diff(differs)

    def _places(self, runs: _Runs, encoded: Encoded) -> tuple[Offsets, Offsets]:
        """Where each token starts and ends, in bytes of all runs, one after another."""
        sizes = self._sizes.of(encoded.ids)
        stops = np.cumsum(sizes)
        starts, before = stops - sizes, np.concatenate([[0], stops])[encoded.offsets]
        lengths = np.array([len(text) for text in runs.texts], np.int64)
        base = np.cumsum(lengths) - lengths
        shift = np.repeat(base - before[:-1], np.diff(encoded.offsets))
        starts, stops = starts + shift, stops + shift
        for run in np.flatnonzero(np.diff(before) != lengths).tolist():
            here = slice(*encoded.offsets[run : run + 2].tolist())
            found = self._asked_places(runs, run, encoded.ids[here])
            starts[here], stops[here] = (base[run] + side for side in found)
        return starts, stops

    def _asked_places(
        self, runs: _Runs, run: int, ids: NDArray[np.uint32]
    ) -> tuple[Offsets, Offsets]:
        """The same of one run, asked of the reference: where a normalizer changes the text."""
        turns = runs.part_turns[slice(*runs.parts[run : run + 2].tolist())]
        if len({*turns.tolist()}) == 1:
            anywhere = np.zeros(len(ids), np.int64)
            return anywhere, anywhere
        text = runs.texts[run].decode()
        found = self._bare.tokenizer.encode(text, add_special_tokens=False)
        if found.ids != ids.tolist():
            raise TokenizerError("the encoders disagree on a text; run again with the reference")
        before = np.cumsum([0, *(len(c.encode()) for c in text)])
        offsets = np.array(found.offsets, np.int64).reshape(-1, 2)
        return before[offsets[:, 0]], before[offsets[:, 1]]

    def check(self, text: str, data: Sequence[str], ids: PieceIds) -> None:
        """Compare ids with those of the whole text, as ``apply_chat_template`` makes them.

        A text whose ``data`` holds control tokens is not compared: there they have to differ.
        ``TokenizerError`` if a run that stands alone has other ids than inside of the text.
        """
        found = self._control.pattern.findall(text)
        if len(found) != int(self._is_mark[ids].sum()):
            return
        if any(map(self._control.pattern.search, data)):
            return
        if self._whole.matched(text) != ids.tolist():
            raise TokenizerError(
                "the tokenizer gives a whole conversation other ids than its parts between "
                "control tokens: it treats the start of a text, or white space at a control "
                "token, in a way of its own; this is not supported for this chat template"
            )


def _parts_at(places: Offsets, ends: Offsets) -> Offsets:
    """For each place the part that it lies in, by where the parts end; the last, behind them.

    Places ascend, but for some of a normalizer: there are fewer parts to look for than places.
    """
    if (places[1:] < places[:-1]).any():
        return np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1)
    within = np.diff(np.searchsorted(places, ends[:-1]), prepend=0, append=len(places))
    return np.repeat(np.arange(len(ends)), within)


def _runs_of(conversations: Sequence[LaidTexts]) -> _Runs:
    texts: list[bytes] = []
    sizes: list[int] = []
    counts: list[int] = []
    for layout, pieces in conversations:
        parts = [p if isinstance(p, bytes) else pieces[p].encode() for p in layout.parts]
        sizes += map(len, parts)
        for first, stop in layout.runs:
            texts.append(b"".join(parts[first:stop]))
            counts.append(stop - first)
    each = np.array([len(layout.runs) for layout, _ in conversations], np.int64)
    owner = np.repeat(np.arange(len(each)), each)
    turns = _joined([layout.part_turns for layout, _ in conversations], np.int32)
    return _Runs(texts, np.array(sizes, np.int64), turns, _ends(counts), owner)


def _bounds(sizes: Offsets, counts: Sequence[int]) -> Offsets:
    return _ends(sizes)[_ends(counts)]


def _ends(counts: Sequence[int] | Offsets) -> Offsets:
    """Where each of several groups ends, with a zero in front (int64)."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _joined(arrays: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *arrays])


def _check_flags(tokenizer: Tokenizer, control: ControlTokens) -> None:
    for token in added_tokens.read(tokenizer.json.decode()):
        flags = [name for name in ("lstrip", "rstrip", "single_word") if token.get(name)]
        if token["content"] in control.texts and flags:
            raise TokenizerError(
                f"the control token {token['content']!r} has {', '.join(flags)} set, which takes "
                "text of the conversation along; use a tokenizer without these flags"
            )
