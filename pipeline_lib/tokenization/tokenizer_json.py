"""The fields of a ``tokenizer.json``: what they say, and the form of them that decides ids."""

import json
from typing import Any

from pipeline_lib.errors import TokenizerError
from pipeline_lib.tokenization.reference import ReferenceEncoder

Fields = dict[str, Any]  # the form of the file is that of the tokenizers library

_CHANCE = ("dropout", "alpha", "nbest_size")
"""Fields of a model that make an encoding random."""


def is_tokenizer(fields: Any) -> bool:
    """Whether a JSON value has the form of a tokenizer's added tokens."""
    added = fields.get("added_tokens") or [] if isinstance(fields, dict) else None
    return isinstance(added, list) and all(
        isinstance(token, dict) and {"id", "content"} <= token.keys() for token in added
    )


def special_tokens(fields: Fields) -> list[str]:
    """The texts of the special tokens."""
    added = fields.get("added_tokens") or []
    return [token["content"] for token in added if token.get("special")]


def chance(fields: Fields) -> Fields:
    """The fields of the model that make an encoding random, with their values."""
    model = fields.get("model")
    found = model if isinstance(model, dict) else {}
    return {name: found[name] for name in _CHANCE if found.get(name)}


def normalised(fields: Fields, eos_token: str) -> bytes:
    """The file without what changes or cuts ids by chance or by a saved setting."""
    added = [
        {**token, "special": True} if token["content"] == eos_token else token
        for token in fields.get("added_tokens") or []
    ]
    off: Fields = {"truncation": None, "padding": None, "post_processor": None}
    if found := chance(fields):
        off["model"] = {**fields["model"], **dict.fromkeys(found)}
    return json.dumps({**fields, **off, "added_tokens": added}, ensure_ascii=False).encode()


def id_bound(fields: Fields, reference: ReferenceEncoder) -> int:
    """Largest id + 1, with added tokens and unused ids; ``TokenizerError`` above 32 bits."""
    bound = _largest_id(fields, reference) + 1
    if bound > 1 << 32:
        raise TokenizerError(
            f"the largest id is {bound - 1}; ids must fit 32 bits; choose another tokenizer"
        )
    return bound


def _largest_id(fields: Fields, reference: ReferenceEncoder) -> int:
    added = [int(token["id"]) for token in fields.get("added_tokens") or []]
    vocabulary = fields["model"].get("vocab")
    if isinstance(vocabulary, dict):
        return int(max([*vocabulary.values(), *added]))
    return max(reference.tokenizer.get_vocab(with_added_tokens=True).values())


def check_numbers(fields: Fields, reference: ReferenceEncoder) -> None:
    """``TokenizerError`` if the library numbers an added token otherwise than the file."""
    for token in fields.get("added_tokens") or []:
        found = reference.tokenizer.token_to_id(token["content"])
        if found != token["id"]:
            raise TokenizerError(
                f"added token {token['content']!r} has id {token['id']} in the file but the "
                f"library numbers it {found}; export the tokenizer again with its own library"
            )
