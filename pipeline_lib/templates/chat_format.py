"""Chat formats: how a tokenizer's model writes conversations, and what of them is learned."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from functools import cached_property
from typing import Any

from pipeline_lib import digest
from pipeline_lib.errors import TokenizerError
from pipeline_lib.records import Turn
from pipeline_lib.storage.keyed_folder import Key
from pipeline_lib.templates import chatml
from pipeline_lib.templates.control_text import ControlTokens, control_tokens
from pipeline_lib.templates.derived import Declared
from pipeline_lib.templates.encoding import ENCODING_VERSION, special_ids
from pipeline_lib.templates.families import declared_for
from pipeline_lib.templates.model_template import METHOD_VERSION, ModelTemplate
from pipeline_lib.templates.policies import ChatPolicy, History, Learn, Reasoning
from pipeline_lib.tokenization.chat_files import DEFAULT
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS, ENDOFTEXT
from pipeline_lib.tokenization.tokenizer import Tokenizer
from pipeline_lib.tracing.program import DEFAULT_DATE
from pipeline_lib.tracing.trace import TemplateRefused
from pipeline_lib.tracing.traced_values import Keywords

TOOL_USE = "tool_use"
"""The name of a template for conversations with tools."""
MASK_POLICY = "assistant content and its <|im_end|>, as far as they are to be learned"
_PROBE = (
    Turn(role="system", content="Be brief."),
    Turn(role="user", content="Grüße, 世界 " + "".join(CONTROL_TOKENS)),
    Turn(role="assistant", content="\n<think>\n1\n</think>\n\nYes. "),
)


@dataclass(frozen=True)
class ChatML:
    """The format of tokenizers that are trained here."""

    policy: ChatPolicy = field(default_factory=ChatPolicy)

    def key(self, tokenizer: Tokenizer) -> Key:
        """What decides ids and masks beside the tokenizer and the conversations."""
        return {
            "encoding_version": ENCODING_VERSION,
            **special_ids(tokenizer),
            "probe_render": digest.of_json(list(chatml.segments(_PROBE))),
            "mask_policy": MASK_POLICY,
            "learn": self.policy.learn,
        }


@dataclass(frozen=True)
class ModelFormat:
    """The format of a model's own chat template.

    ``source``: its Jinja text; ``tool_source``: that for conversations with tools. ``keywords``:
    what the template may read beside messages and tools. ``control``: the texts that are control
    tokens. ``family``: the family whose ``declared`` parts are used, or None. ``today``: the date
    that the template sees. ``document_end``, ``pad_id``: ids behind each text of a stream, and
    behind the end of a row.
    """

    source: str
    tool_source: str
    keywords: Keywords
    control: ControlTokens
    declared: Declared
    family: str | None
    today: date
    policy: ChatPolicy
    document_end: int
    pad_id: int

    def key(self, tokenizer: Tokenizer) -> Key:
        """What decides ids and masks beside the tokenizer and the conversations."""
        _ = tokenizer
        return {
            "method_version": METHOD_VERSION,
            "encoding_version": ENCODING_VERSION,
            "chat_template": digest.of_json([self.source, self.tool_source]),
            "chat_keywords": self.keywords,
            "control_tokens": sorted(self.control.texts),
            "omissions": list(self.declared.omissions),
            "stops": sorted(self.declared.stops),
            "today": self.today.isoformat(),
            "learn": self.policy.learn,
            "reasoning": self.policy.reasoning,
            "history": self.policy.history,
            "eos_id": self.document_end,
            "pad_id": self.pad_id,
        }

    @cached_property
    def templates(self) -> tuple[ModelTemplate, ModelTemplate]:
        """The template for conversations, and that for conversations with tools.

        ``TokenizerError`` if a template uses what is not allowed.
        """
        plain = self._template(self.source)
        same = self.tool_source == self.source
        return plain, plain if same else self._template(self.tool_source)

    def _template(self, source: str) -> ModelTemplate:
        try:
            moment = datetime.combine(self.today, time())
            return ModelTemplate(source, self.control, self.keywords, self.declared, moment)
        except TemplateRefused as refused:
            raise TokenizerError(
                f"the chat template is refused ({refused}); a template may only read the "
                "conversation and write text; give another one"
            ) from refused


ChatFormat = ChatML | ModelFormat


def chat_format(
    tokenizer: Tokenizer,
    *,
    template: str = DEFAULT,
    keywords: Mapping[str, Any] | None = None,
    learn: Learn = "all",
    reasoning: Reasoning = "train",
    history: History = "split",
    today: date | None = None,
    document_end: str | None = None,
) -> ChatFormat:
    """The chat format of a tokenizer: its own template, or ChatML where that is its template.

    ``template``: the name of one of its templates, or a Jinja text. ``keywords``: what the template
    may read beside the messages, such as ``enable_thinking``. ``learn``, ``reasoning``,
    ``history``: see ``ChatPolicy``. ``today``: the date that templates write; 2025-01-02 without
    one, so that the same recipe gives the same bytes. ``document_end``: the token behind each text
    of a token stream; without one ``<|endoftext|>`` if it is special, else the end token.

    A tokenizer without a template is used with ChatML if it has its control tokens.
    ``TokenizerError`` if it has neither, no such template, or a token has no id; ``ValueError`` for
    an unknown policy.
    """
    policy = ChatPolicy(learn, reasoning, history)
    source = _source(tokenizer, template)
    if source is None:
        _check_chatml(tokenizer)
    if source in (None, chatml.TEMPLATE) and reasoning == "train":
        return ChatML(policy)
    source = source or chatml.TEMPLATE
    tools = tokenizer.chat.templates.get(TOOL_USE, source) if template == DEFAULT else source
    family, declared = declared_for(source)
    return ModelFormat(
        source,
        tools,
        _keywords(tokenizer, keywords or {}),
        _control(tokenizer, source + tools),
        declared,
        family,
        today or DEFAULT_DATE.date(),
        policy,
        tokenizer.token_id(document_end or _document_end(tokenizer)),
        _pad_id(tokenizer),
    )


def _source(tokenizer: Tokenizer, template: str) -> str | None:
    known = tokenizer.chat.templates
    if template in known:
        return known[template]
    if "{" in template:
        return template
    if template == DEFAULT and not known:
        return None
    if template == DEFAULT and len(known) == 1:
        return next(iter(known.values()))
    raise TokenizerError(
        f"the tokenizer has no chat template {template!r}; it has {', '.join(known) or 'none'}: "
        "name one of these, or give the text of a template"
    )


def _check_chatml(tokenizer: Tokenizer) -> None:
    try:
        special_ids(tokenizer)
    except TokenizerError as error:
        raise TokenizerError(
            "the tokenizer has no chat template, and not the control tokens of ChatML "
            f"({', '.join(CONTROL_TOKENS)}) either; give the text of a template to chat_format, "
            "or use a tokenizer that has one"
        ) from error


def _keywords(tokenizer: Tokenizer, asked: Mapping[str, Any]) -> Keywords:
    """As ``transformers`` gives them: the named special tokens, where there are any."""
    chat = tokenizer.chat
    named = {"bos_token": chat.bos_token, "eos_token": chat.eos_token, "pad_token": chat.pad_token}
    return {name: token for name, token in named.items() if token is not None} | dict(asked)


def _control(tokenizer: Tokenizer, source: str) -> ControlTokens:
    added = tokenizer.reference.tokenizer.get_added_tokens_decoder().values()
    return control_tokens([(token.content, token.special) for token in added], source)


def _document_end(tokenizer: Tokenizer) -> str:
    added = tokenizer.reference.tokenizer.get_added_tokens_decoder().values()
    special = {token.content for token in added if token.special}
    return ENDOFTEXT if ENDOFTEXT in special else tokenizer.eos_token


def _pad_id(tokenizer: Tokenizer) -> int:
    """Without a padding token, the end token's: nothing is masked by value."""
    pad = tokenizer.chat.pad_token
    return tokenizer.eos_id if pad is None else tokenizer.token_id(pad)
