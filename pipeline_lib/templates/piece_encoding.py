"""Pieces of rendered conversations to token ids, and which of them the model generates.

Control tokens are inserted by number. All text between two of them is encoded as one by a
tokenizer that does not match them, so a control token in data stays text, and merges are those of
the whole text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.errors import TokenizerError
from pipeline_lib.templates.control_runs import NO_TURN, ControlMark, PlainRun, atoms
from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.encoding import with_special_marks
from pipeline_lib.templates.model_template import TextPiece
from pipeline_lib.tokenization.byte_symbols import spelled_bytes
from pipeline_lib.tokenization.probing import ProbedEncoder
from pipeline_lib.tokenization.reference import Encoder
from pipeline_lib.tokenization.tokenizer import Tokenizer

PieceIds = NDArray[np.int32]
PieceTurns = NDArray[np.int32]
EncodedRun = tuple[PieceIds, PieceTurns, int]
"""Ids, turns, and how many tokens hold text of several turns."""


@dataclass(frozen=True)
class EncodedPieces:
    """Conversations, one after another.

    ``ids`` (int32). ``turns`` (int32): index of the message that generates the token, else -1.
    ``bounds`` (int64): conversation ``i`` has the places ``bounds[i]:bounds[i + 1]``. ``shared``:
    tokens that hold both text that is generated and text that is not; they are not trained.
    """

    ids: PieceIds
    turns: PieceTurns
    bounds: NDArray[np.int64]
    shared: int


class PieceEncoder:
    """Encodes pieces for one tokenizer and its control tokens.

    ``TokenizerError`` if a control token has no id of its own, or takes white space or a word's
    end along when it is matched.
    """

    def __init__(self, tokenizer: Tokenizer, control: ControlTokens) -> None:
        self._control = control
        self._ids = {text: tokenizer.token_id(text) for text in control.texts}
        _check_flags(tokenizer, control)
        bare = with_special_marks(tokenizer, control.texts)
        self._encoder: Encoder = ProbedEncoder(bare.reference, bare.encoder())
        self._offsets = bare.reference
        self._sizes = _token_bytes(bare)

    def encode(self, conversations: Sequence[Sequence[TextPiece]]) -> EncodedPieces:
        """Ids and turns of several conversations, all their texts in one call."""
        cut = [atoms(pieces, self._control) for pieces in conversations]
        runs = [atom for found in cut for atom in found if isinstance(atom, PlainRun)]
        encoded = iter(self._runs(runs))
        parts = [
            [self._mark(a) if isinstance(a, ControlMark) else next(encoded) for a in found]
            for found in cut
        ]
        sizes = [sum(len(ids) for ids, _, _ in found) for found in parts]
        flat = [part for found in parts for part in found]
        return EncodedPieces(
            _joined([ids for ids, _, _ in flat]),
            _joined([turns for _, turns, _ in flat]),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            sum(shared for _, _, shared in flat),
        )

    def _mark(self, mark: ControlMark) -> EncodedRun:
        return np.array([self._ids[mark.text]], np.int32), np.array([mark.turn], np.int32), 0

    def _runs(self, runs: list[PlainRun]) -> list[EncodedRun]:
        texts = [run.text.encode() for run in runs]
        found = self._encoder.encode(texts)
        split = np.split(found.ids.astype(np.int32), found.offsets[1:-1]) if texts else []
        return [self._turns(run, ids) for run, ids in zip(runs, split, strict=True)]

    def _turns(self, run: PlainRun, ids: PieceIds) -> EncodedRun:
        """The turn of each token of a run; a token over two turns has none."""
        if len({turn for _, turn in run.parts}) == 1:
            return ids, np.full(len(ids), run.parts[0][1], np.int32), 0
        stops = self._stops(run.text, ids)
        starts = np.concatenate([[0], stops[:-1]])
        ends = np.cumsum([len(text.encode()) for text, _ in run.parts])
        turns = np.array([turn for _, turn in run.parts], np.int32)
        first = turns[np.searchsorted(ends, starts, side="right")]
        last = turns[np.searchsorted(ends, np.maximum(stops - 1, starts), side="right")]
        return ids, np.where(first == last, first, NO_TURN), int((first != last).sum())

    def _stops(self, text: str, ids: PieceIds) -> NDArray[np.int64]:
        """Where each token ends in the UTF-8 text, in bytes."""
        if self._sizes is not None:
            stops = np.cumsum(self._sizes[ids])
            if len(stops) and int(stops[-1]) == len(text.encode()):
                return stops
        return self._reference_stops(text, ids)

    def _reference_stops(self, text: str, ids: PieceIds) -> NDArray[np.int64]:
        """The same, asked of the reference: where a normalizer changes the text."""
        found = self._offsets.tokenizer.encode(text, add_special_tokens=False)
        if found.ids != ids.tolist():
            raise TokenizerError("the encoders disagree on a text; run again with the reference")
        bytes_before = np.cumsum([0, *(len(c.encode()) for c in text)])
        return np.asarray(bytes_before[[stop for _, stop in found.offsets]], np.int64)


def _joined(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def _check_flags(tokenizer: Tokenizer, control: ControlTokens) -> None:
    for token in json.loads(tokenizer.json).get("added_tokens") or []:
        flags = [name for name in ("lstrip", "rstrip", "single_word") if token.get(name)]
        if token["content"] in control.texts and flags:
            raise TokenizerError(
                f"the control token {token['content']!r} has {', '.join(flags)} set, which takes "
                "text of the conversation along; use a tokenizer without these flags"
            )


def _token_bytes(tokenizer: Tokenizer) -> NDArray[np.int64] | None:
    """Bytes of text of each id of a byte-level vocabulary; None for others."""
    model = json.loads(tokenizer.json)["model"]
    if model.get("type") != "BPE" or model.get("byte_fallback"):
        return None
    sizes = np.zeros(tokenizer.vocab_bound, np.int64)
    for token, number in tokenizer.reference.tokenizer.get_vocab(with_added_tokens=True).items():
        sizes[number] = len(spelled_bytes(token))
    return sizes
