"""What turns conversations into tokens, for one chat format and tokenizer."""

from typing import Protocol

from pipeline_lib.chat.store import ConversationBatch
from pipeline_lib.templates.chat_format import ChatFormat, ChatML
from pipeline_lib.token_caches.chatml_coder import ChatMLCoder
from pipeline_lib.token_caches.fitted import Fitted, StreamIds
from pipeline_lib.token_caches.template_coder import TemplateCoder
from pipeline_lib.tokenization.tokenizer import Tokenizer


class Coder(Protocol):
    """Conversations to a stream, or to rows of one width.

    ``words``: reason for which a conversation is left out -> more about the first one.
    """

    words: dict[str, str]

    def stream(self, batch: ConversationBatch) -> StreamIds:
        """All conversations, one after another."""

    def sft(self, batch: ConversationBatch, width: int | None) -> Fitted:
        """All samples, whole; with a width, without the oldest turns of those that are longer."""

    def dpo(self, batch: ConversationBatch, width: int | None) -> Fitted:
        """Two samples for each pair: one prompt, two continuations, which alone have loss.

        ``width`` as for ``sft``. ``batch`` has a rejected continuation for every conversation that
        can have one.
        """


def coder_for(form: ChatFormat, tokenizer: Tokenizer, kind: str) -> Coder:
    """The coder of a chat format; ``kind``: which encoder, as ``choose_encoder`` takes it."""
    if isinstance(form, ChatML):
        return ChatMLCoder(form, tokenizer, kind)
    return TemplateCoder(form, tokenizer, kind)
