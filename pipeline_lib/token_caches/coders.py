"""What turns conversations into tokens, for one chat format and tokenizer."""

from typing import Protocol

from pipeline_lib.chat.store import ConversationBatch
from pipeline_lib.templates.chat_format import ChatFormat, ChatML
from pipeline_lib.token_caches.chatml_coder import ChatMLCoder
from pipeline_lib.token_caches.fitted import Fitted, OverLength, StreamIds
from pipeline_lib.token_caches.template_coder import TemplateCoder
from pipeline_lib.tokenization.tokenizer import Tokenizer


class Coder(Protocol):
    """Conversations to a stream, or to rows of one width.

    ``words``: reason for which a conversation is left out -> more about the first one.
    """

    words: dict[str, str]

    def stream(self, batch: ConversationBatch) -> StreamIds:
        """All conversations, one after another."""

    def sft(self, batch: ConversationBatch, width: int, rule: OverLength) -> Fitted:
        """One row for each sample that fits, if necessary after the rule has cut it."""

    def dpo(self, batch: ConversationBatch, width: int, rule: OverLength) -> Fitted:
        """Two rows for each pair that fits: one prompt, two continuations, which alone have loss.

        ``batch`` has a rejected continuation for every conversation that can have one.
        """


def coder_for(form: ChatFormat, tokenizer: Tokenizer, kind: str) -> Coder:
    """The coder of a chat format; ``kind``: which encoder, as ``choose_encoder`` takes it."""
    if isinstance(form, ChatML):
        return ChatMLCoder(form, tokenizer, kind)
    return TemplateCoder(form, tokenizer, kind)
