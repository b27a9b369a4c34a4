"""The added tokens of a ``tokenizer.json``, read and replaced in its text.

The rest of the file, a vocabulary of megabytes, is not parsed. This is safe: in JSON text only a
key looks like a quoted name with a colon after it, and the key at the top level comes before the
model.
"""

import json
from collections.abc import Sequence

from pipeline_lib.tokenization.tokenizer_json import Fields

_KEY, _MODEL = '"added_tokens": ', '"model": '


def read(text: str) -> list[Fields]:
    """The added tokens of a file, in order."""
    return _cut(text)[1]


def replaced(text: str, added: Sequence[Fields]) -> str:
    """The file with other added tokens."""
    before, _, after = _cut(text)
    return before + json.dumps(added, ensure_ascii=False) + after


def _cut(text: str) -> tuple[str, list[Fields], str]:
    """The text before the list, the list, and the text behind it."""
    before, key, rest = text.partition(_KEY)
    if key and _MODEL not in before:
        added, end = json.JSONDecoder().raw_decode(rest)
        return before + key, added or [], rest[end:]
    fields = json.loads(text)
    ahead = {"added_tokens": fields.pop("added_tokens", None), **fields}
    return _cut(json.dumps(ahead, ensure_ascii=False))
