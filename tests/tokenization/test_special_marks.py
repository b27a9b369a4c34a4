"""Marks that are flagged special stay text, and the vocabulary is not read again for it."""

import dataclasses
import json

import pytest
from chat_world import tokenizer, with_ordinary_marks

from pipeline_lib.tokenization import reference as reference_module
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.reference import ReferenceEncoder
from pipeline_lib.tokenization.special_marks import with_special_marks
from pipeline_lib.tokenization.tokenizer import Tokenizer

TEXTS = [f"a{mark}b {mark}{mark}\n".encode() for mark in CONTROL_TOKENS] + [b"plain words", b""]


def ids(encoder: ReferenceEncoder) -> list[int]:
    return encoder.encode(TEXTS).ids.tolist()


def test_a_tokenizer_whose_marks_are_special_is_left_as_it_is() -> None:
    assert with_special_marks(tokenizer()) is tokenizer()


def test_marks_become_special_and_everything_else_is_as_a_file_read_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ordinary = with_ordinary_marks(tokenizer())
    anew = ReferenceEncoder(with_special_marks(ordinary).json)
    monkeypatch.delattr(reference_module, "open_reference")  # nothing is read
    marked = with_special_marks(ordinary)
    assert json.loads(marked.json)["added_tokens"] != json.loads(ordinary.json)["added_tokens"]
    assert ids(marked.reference) == ids(anew) == ids(tokenizer().reference)
    assert ids(marked.reference) != ids(ordinary.reference)
    for text in (text.decode() for text in TEXTS):
        assert marked.reference.matched(text) == ordinary.reference.matched(text)


def test_a_vocabulary_that_would_number_the_marks_otherwise_is_read_again() -> None:
    ordinary = with_ordinary_marks(tokenizer())
    fields = json.loads(ordinary.json)
    fields["added_tokens"].reverse()  # numbered by their ids all the same
    text = json.dumps(fields).encode()
    other = dataclasses.replace(ordinary, json=text, reference=ReferenceEncoder(text))
    assert ids(with_special_marks(other).reference) == ids(tokenizer().reference)
    assert _numbers(with_special_marks(other)) == _numbers(ordinary)


def _numbers(of: Tokenizer) -> dict[str, int]:
    return {mark: of.token_id(mark) for mark in CONTROL_TOKENS}
