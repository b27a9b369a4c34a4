"""The same tokenizer with more of its added tokens flagged special, so that their text stays text.

A tokenizer from elsewhere may have control tokens as ordinary added tokens, which are matched in
text. All ids stay.
"""

from collections.abc import Collection
from dataclasses import replace

from pipeline_lib.tokenization import added_tokens
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.tokenizer import Tokenizer


def with_special_marks(tokenizer: Tokenizer, marks: Collection[str] = CONTROL_TOKENS) -> Tokenizer:
    """The tokenizer with all these tokens flagged special; itself, if they are already."""
    text = tokenizer.json.decode()
    added = added_tokens.read(text)
    plain = [token for token in added if token["content"] in marks and not token.get("special")]
    if not plain:
        return tokenizer
    for token in plain:
        token["special"] = True
    changed = added_tokens.replaced(text, added).encode()
    reference = tokenizer.reference.with_added(changed, added)
    return replace(tokenizer, json=changed, reference=reference)
