"""What a tokenizer loses is known from its file, and seen in texts that are decoded again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpora import tokenizer_bytes, tokenizer_file
from tokenizer_kinds import letters, sentencepiece_bpe, tokenizer_json, unigram, word_level
from tokenizers import Tokenizer, decoders

from pipeline_lib.tokenization.tokenizer import Tokenizer as Loaded
from pipeline_lib.tokenization.tokenizer import load_tokenizer


def without_carriage_return() -> bytes:
    file = json.loads(tokenizer_bytes())
    file["model"]["vocab"]["absent"] = file["model"]["vocab"].pop("č")
    return json.dumps(file).encode()


def loaded(folder: Path, data: bytes, eos: str | None = None) -> Loaded:
    return load_tokenizer(tokenizer_file(folder / "tokenizer", data), eos_token=eos)


def test_a_byte_that_a_vocabulary_can_not_spell_is_named_on_load(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = loaded(tmp_path, without_carriage_return())
    assert found.losses.unspelled == (0x0D,) and found.losses.in_silence
    assert found.metadata()["unspelled_bytes"] == [0x0D]
    assert "no token for the bytes 0x0D: text loses them" in caplog.text
    ids = found.reference.encode([b"the\r\nriver"]).ids.tolist()
    assert found.loses(b"the\r\nriver", ids) and not found.loses(b"", [])


def test_a_vocabulary_of_all_bytes_loses_nothing(tmp_path: Path) -> None:
    found = loaded(tmp_path, tokenizer_bytes())
    assert found.losses.unspelled == () and not found.losses.in_silence
    assert "unspelled_bytes" not in found.metadata()
    for text in ("the river", "  語\r\n\x00 \u0301 ", "<|endoftext|>"):
        ids = found.reference.encode([text.encode()]).ids.tolist()
        assert not found.loses(text.encode(), ids)


@pytest.mark.parametrize(
    ("make", "kept", "lost"),
    [
        (letters, "the cat sat", "the dog sat"),
        (word_level, "the river of stone", "the sea of stone"),
        (unigram, "the river and light", "the 語"),
        (sentencepiece_bpe, "the river 語 and \U0001f600", None),
    ],
    ids=["letters", "words", "unigram", "bytes"],
)
def test_text_that_is_gone_is_seen_when_ids_are_decoded(
    tmp_path: Path, make: Callable[[], Tokenizer], kept: str, lost: str | None
) -> None:
    tokenizer = make()
    if tokenizer.decoder is None and make is unigram:
        tokenizer.decoder = decoders.Metaspace()
    if make is sentencepiece_bpe:
        parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        tokenizer.decoder = decoders.Sequence(parts)
    eos = "</s>" if make is letters else None
    found = loaded(tmp_path, tokenizer_json(lambda: tokenizer), eos)
    for text, expected in ((kept, False), (lost, True)):
        if text is not None:
            ids = found.reference.encode([text.encode()]).ids.tolist()
            assert found.loses(text.encode(), ids) == expected, text


@pytest.mark.parametrize(
    ("make", "silent", "unknown"),
    [(letters, True, None), (word_level, False, "<unk>"), (unigram, False, "<unk>")],
)
def test_only_a_tokenizer_without_an_unknown_token_loses_in_silence(
    tmp_path: Path, make: Callable[[], Any], silent: bool, unknown: str | None
) -> None:
    found = loaded(tmp_path, tokenizer_json(make), "</s>" if make is letters else None)
    assert found.losses.in_silence == silent
    expected = None if unknown is None else found.token_id(unknown)
    assert found.losses.unknown_id == expected
