"""The tokenizer that a run names, instead of training one: a folder, or a repository of the Hub.

It is opened when a run begins, so that hours of work do not end in a tokenizer that can not be
used, and so that a branch that moves meanwhile changes nothing.
"""

import json
import logging
from pathlib import Path
from typing import NamedTuple

from pipeline_lib.records import LOCAL
from pipeline_lib.templates.chat_format import ChatML, ModelFormat, chat_format
from pipeline_lib.tokenization.control_tokens import ENDOFTEXT
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer
from pipeline_lib.tokenization.tokenizer_json import special_tokens
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused

TRAIN = "train"
"""What is named where a run trains its own tokenizer."""
_PLAIN = ChatInput([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
_log = logging.getLogger(__name__)


class NamedTokenizer(NamedTuple):
    """A tokenizer, the folder or repository that it is of, and a line that says what it is."""

    tokenizer: Tokenizer
    place: str
    explanation: str


def named_tokenizer(name: str) -> NamedTokenizer | None:
    """The tokenizer that a run names; None for ``"train"``, when it trains its own.

    ``name``: a folder, or a Hub repository, as ``"owner/name@revision"``; without a revision it is
    the main branch, and the log names its commit. An existing path comes first. Documents end in
    ``<|endoftext|>`` where that is a special token, else in the end token of its configuration,
    which of chat models is that of a turn.

    ``TokenizerError`` if it can not be read, or if no chat format fits it; ``HubError``.
    """
    if name == TRAIN:
        return None
    place, _, revision = (name, "", "") if Path(name).exists() else name.partition("@")
    tokenizer = _ending_documents(place, load_tokenizer(place, revision=revision or None))
    if tokenizer.repository != LOCAL and revision != tokenizer.revision:
        _log.info(
            "%s: %s is commit %s now; name %s@%s to stay there",
            *(place, revision or "its main branch", tokenizer.revision, place, tokenizer.revision),
        )
    explanation = _explanation(place, tokenizer)
    _log.info("%s", explanation)
    return NamedTokenizer(tokenizer, place, explanation)


def _ending_documents(place: str, loaded: Tokenizer) -> Tokenizer:
    """The same tokenizer, whose documents end in the token for that, if it has one."""
    has = ENDOFTEXT in special_tokens(json.loads(loaded.json))
    if not has or loaded.eos_token == ENDOFTEXT:
        return loaded
    revision = None if loaded.repository == LOCAL else loaded.revision
    return load_tokenizer(place, revision=revision, eos_token=ENDOFTEXT)


def _explanation(place: str, tokenizer: Tokenizer) -> str:
    form = chat_format(tokenizer)
    if isinstance(form, ChatML):
        chat = "in ChatML"
    else:
        _try(form)
        chat = f"by its own template ({form.family or 'of no known family'})"
    return f"{place}: used as it is; documents end in {tokenizer.eos_token}, chats are {chat}"


def _try(form: ModelFormat) -> None:
    """What a template does with the plainest conversation is said before hours of work."""
    try:
        form.templates[0].derive(_PLAIN)
    except TemplateRefused as refused:
        _log.warning(
            "under its chat template a question with an answer is refused (%s); conversations "
            "like that will be left out and counted",
            refused,
        )
