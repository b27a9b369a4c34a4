"""Conversations under a model's own chat template: rendered, proven, encoded."""

import numpy as np

from pipeline_lib.chat.store import ConversationBatch
from pipeline_lib.templates.chat_format import ModelFormat
from pipeline_lib.templates.encoding import Ids, Mask
from pipeline_lib.templates.layouts import NO_TURN
from pipeline_lib.templates.piece_encoding import EncodedPieces
from pipeline_lib.templates.samples import Sample, SampleMaker
from pipeline_lib.token_caches.fitted import (
    NO_OTHER_ORDER,
    NO_PROMPT,
    Amounts,
    Fitted,
    Flags,
    SampleTokens,
    StreamIds,
)
from pipeline_lib.token_caches.layout import without_loss
from pipeline_lib.token_caches.sample_batches import MadeSamples, SampleReader, talks_of
from pipeline_lib.token_caches.sample_rows import to_store
from pipeline_lib.tokenization.tokenizer import Tokenizer

SAMPLES = "samples"


class TemplateCoder:
    """Ids and masks of conversations under a model's template; see ``Coder``."""

    def __init__(self, form: ModelFormat, tokenizer: Tokenizer, kind: str) -> None:
        self._end, self._pad = np.int32(form.document_end), form.pad_id
        self._reader = SampleReader(form, tokenizer, kind)
        self.words = self._reader.words

    def stream(self, batch: ConversationBatch) -> StreamIds:
        """See ``Coder``. A document, which answers nobody, is its plain text."""
        talks = talks_of(batch.turns)

        def make(number: int, maker: SampleMaker) -> list[Sample]:
            talk = talks[number]
            answers = "user" in talk.roles
            return [maker.whole(talk) if answers else self._reader.document(talk)]

        made = self._reader.read(batch.turns, range(len(talks)), make)
        encoded = self._reader.encode(made.samples)
        unusable, usable = _unusable(encoded, 1)
        sizes = np.diff(encoded.bounds)
        ids, ends = self._stored(made, encoded)
        kept = ids[np.repeat(usable, sizes)]
        learned = (encoded.turns != NO_TURN) & (ids >= 0)
        sums = np.concatenate([[0], np.cumsum(learned)])[encoded.bounds]
        amounts = {
            **made.refused,
            **_by_conversation(made, unusable, 1),
            **made.notes(encoded),
            "tokens": made.by_conversation((sizes + 1) * usable),
            "trained": made.by_conversation(np.diff(sums) * usable),
        }
        return StreamIds(np.insert(kept, np.cumsum(sizes[usable]), ends[usable]), amounts)

    def _stored(self, made: MadeSamples, encoded: EncodedPieces) -> tuple[Ids, Ids]:
        """Ids as they are stored, without loss in turns that are not to be learned; and the end
        token of each text, without loss behind one that was cut."""
        ids, ends = encoded.ids.copy(), np.full(len(made.samples), self._end)
        for number, sample in enumerate(made.samples):
            if silent := sample.talk.silent:
                here = slice(*encoded.bounds[number : number + 2].tolist())
                lost = np.isin(encoded.turns[here], silent)
                ids[here] = np.where(lost, without_loss(ids[here]), ids[here])
            if len(sample.talk) - 1 in sample.talk.cut:
                ends[number] = without_loss(ends[number : number + 1])[0]
        return ids, ends

    def sft(self, batch: ConversationBatch, width: int | None) -> Fitted:
        """See ``Coder``."""
        talks = talks_of(batch.turns)

        def make(number: int, maker: SampleMaker) -> list[Sample]:
            return maker.samples(talks[number])

        made = self._reader.read(batch.turns, range(len(talks)), make)
        return self._fitted(made, 1, width)

    def dpo(self, batch: ConversationBatch, width: int | None) -> Fitted:
        """See ``Coder``."""
        talks, rejected = talks_of(batch.turns), talks_of(batch.rejected)
        has_rejected = np.diff(batch.rejected.offsets) > 0

        def make(number: int, maker: SampleMaker) -> list[Sample]:
            chosen, size = talks[number], int(batch.prompt[number])
            other = chosen.continued(size, rejected[number])
            return [maker.continuation(side, size) for side in (chosen, other)]

        pairs = np.flatnonzero((batch.prompt > 0) & has_rejected)
        made = self._reader.read(batch.turns, pairs.tolist(), make)
        fitted = self._fitted(made, 2, width)
        flags = {
            NO_PROMPT: batch.prompt == 0,
            NO_OTHER_ORDER: (batch.prompt > 0) & ~has_rejected,
            **fitted.flags,
        }
        return fitted._replace(flags=flags)

    def _fitted(self, made: MadeSamples, sides: int, width: int | None) -> Fitted:
        cut = None if width is None else self._reader.shortened(made, sides, width)
        encoded = self._reader.encode(made.samples)
        unusable, usable = _unusable(encoded, sides)
        mask: Mask = (encoded.turns != NO_TURN).astype(np.int8)
        stored = to_store(
            SampleTokens(encoded.ids, mask, encoded.bounds, sides), usable, cut, width
        )
        flags: Amounts = {
            SAMPLES: made.by_conversation(np.ones(len(usable), np.int64), sides),
            **made.refused,
            **made.notes(encoded),
            **_by_conversation(made, unusable | stored.flags, sides),
        }
        owner = np.array(made.owner[::sides], np.int64)[stored.kept]
        return Fitted(stored.tokens, stored.records, owner, made.count, flags)


def _by_conversation(made: MadeSamples, flags: dict[str, Flags], sides: int) -> Amounts:
    return {why: made.by_conversation(found, sides) for why, found in flags.items()}


def _unusable(encoded: EncodedPieces, sides: int) -> tuple[dict[str, Flags], Flags]:
    """Reason -> the groups that hold a sample which can not be used, each under one reason; and the
    groups that hold none."""
    count = (len(encoded.bounds) - 1) // sides
    usable, flags = np.ones(count, bool), dict[str, Flags]()
    for reason, numbers in encoded.unusable.items():
        found = np.zeros(count, bool)
        found[numbers // sides] = True
        flags[reason] = found & usable
        usable &= ~found
    return flags, usable
