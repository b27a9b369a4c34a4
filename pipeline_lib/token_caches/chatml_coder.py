"""Conversations in ChatML: turn by turn, in columns, which is fast."""

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.chat.store import ConversationBatch
from pipeline_lib.records import ROLES, TurnBatch
from pipeline_lib.templates.chat_format import ChatML
from pipeline_lib.templates.encoding import encode_turns, template_for
from pipeline_lib.token_caches.fitted import Amounts, Fitted, StreamIds
from pipeline_lib.token_caches.layout import without_loss
from pipeline_lib.token_caches.rows import dpo_rows, sft_rows, unusable_rows
from pipeline_lib.tokenization.tokenizer import Tokenizer

_ASSISTANT = ROLES.index("assistant")


class ChatMLCoder:
    """Ids and masks of conversations in ChatML; see ``Coder``."""

    def __init__(self, form: ChatML, tokenizer: Tokenizer, kind: str) -> None:
        self._learn = form.policy.learn
        self._template = template_for(tokenizer, kind)
        self.words: dict[str, str] = {}

    def stream(self, batch: ConversationBatch) -> StreamIds:
        """See ``Coder``."""
        tokens = encode_turns(self._template, batch.turns)
        tokens.ids[tokens.withheld] = without_loss(tokens.ids[tokens.withheld])
        ends = tokens.bounds[batch.turns.offsets]
        trained = np.diff(np.concatenate([[0], np.cumsum(tokens.mask)])[ends])
        sizes, turns = np.diff(ends), np.diff(batch.turns.offsets)
        owner = np.repeat(np.arange(len(turns)), turns)
        unusable, usable = unusable_rows(tokens, owner, len(turns))
        ids = tokens.ids[np.repeat(usable, sizes)] if unusable else tokens.ids
        amounts: Amounts = {
            **unusable,
            "tokens": (sizes + 1) * usable,
            "trained": trained * usable,
        }
        return StreamIds(np.insert(ids, np.cumsum(sizes[usable]), self._template.eos), amounts)

    def sft(self, batch: ConversationBatch, width: int | None) -> Fitted:
        """See ``Coder``."""
        return sft_rows(self._template, self._limited(batch.turns), width)

    def dpo(self, batch: ConversationBatch, width: int | None) -> Fitted:
        """See ``Coder``."""
        rejected = np.diff(batch.rejected.offsets) > 0
        turns = self._limited(batch.turns)
        limited = batch._replace(turns=turns, rejected=self._limited(batch.rejected, rejected))
        return dpo_rows(self._template, limited, width)

    def _limited(self, turns: TurnBatch, rows: NDArray[np.bool_] | None = None) -> TurnBatch:
        """The turns with loss on the last message only; ChatML has no tool calls, so the last turn
        is the last message."""
        if self._learn == "all":
            return turns
        last = np.zeros(len(turns.roles), bool)
        ends = turns.offsets[1:] if rows is None else turns.offsets[1:][rows]
        last[ends - 1] = True
        learn = np.where((turns.roles == _ASSISTANT) & last, turns.learn, 0).astype(np.int8)
        return turns._replace(learn=learn)
