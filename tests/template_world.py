"""Small tokenizers that have the control tokens and the chat template of a family."""

import dataclasses
import json
from functools import cache

from chat_templates import KEYWORDS, ORIGINAL, control_of
from chat_world import tokenizer, tokenizer_from_json

from pipeline_lib.tokenization.chat_files import ChatFiles
from pipeline_lib.tokenization.tokenizer import Tokenizer


@cache
def family_tokenizer(name: str, *, special: bool = True) -> Tokenizer:
    """A byte-level BPE with the control tokens that the template of a family writes.

    ``special``: whether they are flagged so; many families leave some of them ordinary.
    """
    return with_template(ORIGINAL[name].read_text(), special=special)


def with_template(source: str, *, special: bool = True) -> Tokenizer:
    """The same for any template."""
    fields = json.loads(tokenizer().json)
    known = {token["content"] for token in fields["added_tokens"]}
    number = tokenizer().vocab_bound
    for text in sorted(control_of(source).texts - known):
        token = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        flagged = special or text in KEYWORDS.values()
        fields["added_tokens"].append({"id": number, "content": text, **token, "special": flagged})
        number += 1
    made = tokenizer_from_json(json.dumps(fields).encode())
    chat = ChatFiles({"default": source}, KEYWORDS["bos_token"], KEYWORDS["eos_token"], None)
    return dataclasses.replace(made, chat=chat)
