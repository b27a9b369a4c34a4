"""An encoder that is used goes on being compared with the reference."""

import itertools
import zlib

import numpy as np
import pytest
from corpora import texts, tokenizer_bytes

from pipeline_lib.errors import EncoderMismatch
from pipeline_lib.tokenization.fast import FastEncoder
from pipeline_lib.tokenization.probing import PROBED, ProbedEncoder
from pipeline_lib.tokenization.reference import Encoded, ReferenceEncoder

PROBE = next(
    text
    for text in (f"text {n}" for n in itertools.count())
    if not zlib.crc32(text.encode()) % PROBED
).encode()


class Wrong(FastEncoder):
    """Gives the text ``bad`` another last id."""

    bad = b""

    def encode(self, texts: list[bytes]) -> Encoded:
        ids, offsets = super().encode(texts)
        ids = ids.copy()
        for index in (n for n, text in enumerate(texts) if text == self.bad):
            ids[offsets[index + 1] - 1] ^= 1
        return Encoded(ids, offsets)


@pytest.fixture
def wrong() -> tuple[ProbedEncoder, Wrong]:
    reference = ReferenceEncoder(tokenizer_bytes())
    encoder = Wrong(tokenizer_bytes(), reference)
    return ProbedEncoder(reference, encoder), encoder


def test_the_first_texts_are_compared(wrong: tuple[ProbedEncoder, Wrong]) -> None:
    probed, encoder = wrong
    encoder.bad = b"stone"
    with pytest.raises(EncoderMismatch, match="b'stone'"):
        probed.encode([b"river", b"stone"])


def test_texts_picked_by_their_content_are_compared_whenever_they_come(
    wrong: tuple[ProbedEncoder, Wrong],
) -> None:
    probed, encoder = wrong
    probed.encode([b"river"])
    encoder.bad = PROBE
    probed.encode([b"stone"])
    with pytest.raises(EncoderMismatch, match=r"gives .* where tokenizers"):
        probed.encode([b"stone", PROBE])


def test_a_sound_encoder_gives_its_own_ids(wrong: tuple[ProbedEncoder, Wrong]) -> None:
    probed, encoder = wrong
    found = [*(text.encode() for text in texts(20)), PROBE]
    assert np.array_equal(probed.encode(found).ids, encoder.encode(found).ids)
    assert (probed.name, probed.version) == (encoder.name, encoder.version)
