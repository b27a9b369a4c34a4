"""A text that a library raises on is told apart from the others, which keep their ids."""

import pytest
from corpora import tokenizer_bytes
from tokenizer_kinds import tokenizer_json, word_level
from tokenizers import Tokenizer, models

from pipeline_lib.errors import TextRefused
from pipeline_lib.tokenization.reference import ReferenceEncoder
from pipeline_lib.tokenization.refusals import encode_each


def without_unknown() -> Tokenizer:
    """A word-level tokenizer whose unknown token is not in its vocabulary: the library raises."""
    tokenizer = Tokenizer(models.WordLevel({"the": 0, "river": 1}, unk_token="<gone>"))
    tokenizer.pre_tokenizer = word_level().pre_tokenizer
    return tokenizer


def test_one_refused_text_costs_the_others_nothing() -> None:
    encoder = ReferenceEncoder(tokenizer_json(without_unknown))
    texts = [b"the river", b"a stone", b"", b"the", b"stone"]
    with pytest.raises(TextRefused, match=r"tokenizers .* raises on a text: .*UNK"):
        encoder.encode(texts)
    encoded, refused = encode_each(encoder, texts)
    assert encoded.ids.tolist() == [0, 1, 0] and encoded.offsets.tolist() == [0, 2, 2, 2, 3, 3]
    assert set(refused) == {1, 4} and "raises on a text" in refused[1]


def test_where_no_text_is_refused_the_answer_is_that_of_the_encoder() -> None:
    encoder = ReferenceEncoder(tokenizer_bytes())
    encoded, refused = encode_each(encoder, [b"the river", b"", b"stone"])
    right = encoder.encode([b"the river", b"", b"stone"])
    assert encoded.ids.tolist() == right.ids.tolist() and not refused
    assert encode_each(encoder, []).encoded.offsets.tolist() == [0]
