"""Sizes of tokens sum to the bytes of any text, in vocabularies that spell bytes; else they are 0.

They are told from names, and held here against the text itself.
"""

from collections.abc import Callable

import numpy as np
import pytest
from corpora import texts
from fuzz_texts import FuzzTexts
from tokenizer_kinds import BYTE_LEVEL, FOREIGN, gpt2, tokenizer_json
from tokenizers import Tokenizer

from pipeline_lib.tokenization.equality import NASTY
from pipeline_lib.tokenization.reference import ReferenceEncoder
from pipeline_lib.tokenization.spelled_sizes import SpelledSizes


def asked(make: Callable[[], Tokenizer]) -> tuple[ReferenceEncoder, SpelledSizes]:
    reference = ReferenceEncoder(tokenizer_json(make))
    bound = 1 + max(reference.tokenizer.get_vocab(with_added_tokens=True).values())
    return reference, SpelledSizes(reference, bound)


@pytest.mark.parametrize("make", BYTE_LEVEL)
def test_sizes_sum_to_the_bytes_of_every_text(make: Callable[[], Tokenizer]) -> None:
    """Each batch meets some ids anew and some again."""
    reference, sizes = asked(make)
    fuzzed = FuzzTexts(reference.tokenizer_json, 1).batches(300, 50)
    for batch in ([text.encode() for text in texts(20)], [*NASTY], *fuzzed):
        encoded = reference.encode(batch)
        found = sizes.of(encoded.ids)
        assert (found.dtype, len(found)) == (np.int64, len(encoded.ids))
        ends = np.concatenate([[0], np.cumsum(found)])[encoded.offsets]
        assert np.diff(ends).tolist() == [*map(len, batch)]


def test_the_size_of_a_token_does_not_depend_on_what_was_asked_before() -> None:
    reference, sizes = asked(gpt2)
    every = np.arange(reference.tokenizer.get_vocab_size(), dtype=np.uint32)
    assert sizes.of(every[:0]).tolist() == []
    some = sizes.of(every[::7]).tolist()
    assert some == asked(gpt2)[1].of(every)[::7].tolist() == sizes.of(every)[::7].tolist()


def test_an_id_without_a_token_spells_nothing() -> None:
    reference = ReferenceEncoder(tokenizer_json(gpt2))
    unused = reference.tokenizer.get_vocab_size() + 3
    assert SpelledSizes(reference, unused + 1).of(np.array([unused], np.uint32)).tolist() == [0]


@pytest.mark.parametrize("make", FOREIGN)
def test_other_vocabularies_spell_no_bytes(make: Callable[[], Tokenizer]) -> None:
    reference, sizes = asked(make)
    ids = reference.encode([text.encode() for text in texts(20)]).ids
    assert len(ids)
    assert not sizes.of(ids).any()
