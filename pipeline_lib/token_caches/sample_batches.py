"""Batches of samples under a model's template: read from conversations, encoded, checked."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline_lib.chat.store_format import conversation, tools_of
from pipeline_lib.records import Turn, TurnBatch
from pipeline_lib.templates.chat_format import ModelFormat
from pipeline_lib.templates.encoding import Places
from pipeline_lib.templates.layouts import LaidPiece
from pipeline_lib.templates.learned_pieces import Wanted
from pipeline_lib.templates.piece_encoding import EncodedPieces, PieceEncoder
from pipeline_lib.templates.samples import Sample, SampleMaker
from pipeline_lib.templates.talk import Talk, kinds_of
from pipeline_lib.templates.turn_messages import form_of
from pipeline_lib.token_caches.fitted import REFUSED, Amounts, Flags
from pipeline_lib.tokenization.tokenizer import Tokenizer
from pipeline_lib.tracing.trace import TemplateRefused

SHARED = "tokens over the start of an answer, not trained"
CHECKED_FIRST, CHECKED_EVERY = 64, 256
"""The first samples, and then one in so many, are compared with the ids of their whole text."""

Make = Callable[[int, SampleMaker], Sequence[Sample]]
"""The samples of a conversation of a batch, by its number."""


def talks_of(turns: TurnBatch) -> list[Talk]:
    """The conversations of a batch."""
    kinds = kinds_of(turns.roles, turns.learn)
    contents = [content.decode() for content in turns.contents]
    places = enumerate(pairwise(turns.offsets.tolist()))
    return [
        Talk(
            contents[start:stop],
            kinds[start:stop],
            not (turns.tools[number] or any(turns.fields[start:stop])),
            partial(_turns_of, turns, number),
        )
        for number, (start, stop) in places
    ]


def _turns_of(turns: TurnBatch, number: int) -> tuple[list[Turn], list[Any] | None]:
    return conversation(turns, number), tools_of(turns, number)


@dataclass
class MadeSamples:
    """The samples of ``count`` conversations. ``owner``: the conversation of each. ``refused``:
    reason -> for each conversation, whether the template refuses it."""

    count: int
    samples: list[Sample] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)
    refused: dict[str, Flags] = field(default_factory=dict)

    def add(self, number: int, samples: Sequence[Sample]) -> None:
        """Samples of a conversation."""
        self.samples += samples
        self.owner += [number] * len(samples)

    def refuse(self, number: int, reason: str) -> None:
        """A conversation that the template refuses."""
        label = f"{REFUSED}{reason}"
        self.refused.setdefault(label, np.zeros(self.count, bool))[number] = True

    def by_conversation(self, values: Flags | Places, sides: int = 1) -> Places:
        """A value of each sample, or of each group of them, summed for each conversation."""
        owner = np.array(self.owner[::sides], np.int64)
        return np.bincount(owner, values.astype(np.float64), self.count).astype(np.int64)

    def notes(self, encoded: EncodedPieces) -> Amounts:
        """What is to be counted of the samples, for each conversation."""
        found: dict[str, Places] = {}
        for number, sample in zip(self.owner, self.samples, strict=True):
            for label, times in sample.notes.items():
                found.setdefault(label, np.zeros(self.count, np.int64))[number] += times
        if encoded.shared.any():
            found[SHARED] = self.by_conversation(encoded.shared)
        return found


class SampleReader:
    """Makes and encodes the samples of a chat format with one tokenizer.

    ``words``: reason for which a conversation is refused -> more about the first one.
    """

    def __init__(self, form: ModelFormat, tokenizer: Tokenizer, kind: str) -> None:
        self._encoder, self._seen = PieceEncoder(tokenizer, form.control, kind), 0
        self._makers = [
            SampleMaker(template, form_of(template.program), form.policy, self._encoder.layout)
            for template in form.templates
        ]
        self._document = self._encoder.layout([LaidPiece("", False, 0)])
        self.words: dict[str, str] = {}

    def read(self, turns: TurnBatch, numbers: Iterable[int], make: Make) -> MadeSamples:
        """The samples of some conversations of a batch."""
        made = MadeSamples(len(turns.offsets) - 1)
        for number in numbers:
            try:
                made.add(number, make(number, self.maker(turns, number)))
            except TemplateRefused as refused:
                made.refuse(number, refused.reason)
                self.words.setdefault(f"{REFUSED}{refused.reason}", str(refused))
        return made

    def maker(self, turns: TurnBatch, number: int) -> SampleMaker:
        """What makes the samples of a conversation: another template, if it has tools."""
        return self._makers[bool(turns.tools[number])]

    def document(self, talk: Talk) -> Sample:
        """Texts that answer nobody, as they are, without a template."""
        texts, wanted = ["".join(talk.contents)], Wanted(frozenset())
        return Sample(self._document, [False], Counter(), texts, talk, wanted, len(talk))

    def encode(self, samples: Sequence[Sample]) -> EncodedPieces:
        """Ids of samples; some are compared with the ids of their whole text."""
        encoded = self._encoder.encode([(sample.layout, sample.texts) for sample in samples])
        for number, sample in enumerate(samples):
            self._seen += 1
            if self._seen <= CHECKED_FIRST or not self._seen % CHECKED_EVERY:
                ids = encoded.ids[encoded.bounds[number] : encoded.bounds[number + 1]]
                self._encoder.check(sample.text, sample.data, ids)
        return encoded

    def shortened(self, made: MadeSamples, sides: int, width: int) -> Flags:
        """Put shorter samples in place of groups over the width, where they can be made to fit.

        Returns, for each group, whether it has lost turns. The turns of a pair are dropped from its
        prompt, which both sides have.
        """
        sizes = np.diff(self.encode(made.samples).bounds).reshape(-1, sides).max(axis=1)
        cut = np.zeros(len(sizes), bool)
        for group in np.flatnonzero(sizes > width).tolist():
            place = slice(group * sides, (group + 1) * sides)
            cut[group] = self._shorten(made.samples, place, width)
        return cut

    def _shorten(self, samples: list[Sample], place: slice, width: int) -> bool:
        maker = self._makers[bool(samples[place][0].talk.tools)]
        for tried in zip(*map(maker.shorter, samples[place]), strict=False):
            shorter = [sample for sample in tried if sample is not None]
            if len(shorter) < len(tried):
                continue
            if np.diff(self.encode(shorter).bounds).max() <= width:
                samples[place] = shorter
                return True
        return False
