"""Added tokens are read and replaced in the text of a file as if all of it had been parsed."""

import json
from typing import Any

import pytest

from pipeline_lib.tokenization import added_tokens

ODD = '"added_tokens": [], "model": '
"""A token that spells what is searched for."""
ADDED = [{"id": 3, "content": ODD, "special": True}, {"id": 4, "content": "é\n", "special": False}]
MODEL = {"type": "BPE", "vocab": {ODD: 0, '"added_tokens": [9]': 1}, "merges": []}
FILES: dict[str, dict[str, Any]] = {
    "as the library writes it": {"version": "1.0", "added_tokens": ADDED, "model": MODEL},
    "the model first": {"model": MODEL, "added_tokens": ADDED},
    "null": {"added_tokens": None, "model": MODEL},
    "none": {"version": ODD, "model": MODEL},
}


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")], ids=["spaces", "compact"])
@pytest.mark.parametrize("name", FILES)
def test_the_list_is_read_and_replaced_and_all_else_stays(
    name: str, separators: tuple[str, str]
) -> None:
    fields = FILES[name]
    text = json.dumps(fields, separators=separators, ensure_ascii=name == "null")
    assert added_tokens.read(text) == (fields.get("added_tokens") or [])
    for other in ([], ADDED[:1], ADDED):
        changed = added_tokens.replaced(text, other)
        assert json.loads(changed) == fields | {"added_tokens": other}
