"""Tokenizers of every kind: byte-level ones, other families, and some with a normalizer."""

from collections.abc import Callable
from typing import Any

from corpora import EOS, texts
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from pipeline_lib.tokenization.byte_symbols import BYTE_SYMBOLS
from pipeline_lib.tokenization.equality import NASTY

GPT4_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SOME = [*texts(300), *(text.decode() for text in NASTY), "    if x:\n        return '''a'''\n" * 5]


def bpe(pre_tokenizer: Any, *, normalizer: Any = None, vocab_size: int = 600) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[EOS], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    tokenizer.train_from_iterator(SOME, trainer)
    return tokenizer


def gpt2() -> Tokenizer:
    return bpe(pre_tokenizers.ByteLevel(add_prefix_space=False))


def gpt4() -> Tokenizer:
    split = pre_tokenizers.Split(Regex(GPT4_SPLIT), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return bpe(pre_tokenizers.Sequence([split, level]))


def with_runs_of_spaces() -> Tokenizer:
    """Added tokens that are ordinary text, after a special one in the file, as in some models."""
    tokenizer = gpt2()
    runs = [AddedToken(" " * n, normalized=True, special=False) for n in (24, 12, 6, 3, 2)]
    tokenizer.add_tokens([*runs, AddedToken("\n\n\n", special=False)])
    return tokenizer


def specials_before_ordinary() -> Tokenizer:
    tokenizer = gpt2()
    tokenizer.add_special_tokens(["<|a|>", "<|b|>"])
    tokenizer.add_tokens([AddedToken("def ", special=False), AddedToken("    ", special=False)])
    tokenizer.add_special_tokens(["<|c|>"])
    return tokenizer


def word_level() -> Tokenizer:
    words = {word: n for n, word in enumerate([EOS, "<unk>", "the", "of", "river", "stone"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([EOS])
    return tokenizer


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.train_from_iterator(
        SOME, trainers.WordPieceTrainer(vocab_size=400, special_tokens=["[UNK]", EOS])
    )
    return tokenizer


def sentencepiece_bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    special = ["<unk>", EOS, *(f"<0x{n:02X}>" for n in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(SOME, trainer)
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>", EOS], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts(300), trainer)
    return tokenizer


def letters() -> Tokenizer:
    """BPE over the characters of one sentence, without an unknown token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=["</s>"], show_progress=False)
    tokenizer.train_from_iterator(["the cat sat on the mat"] * 5, trainer)
    return tokenizer


BYTE_LEVEL = [gpt2, gpt4, with_runs_of_spaces, specials_before_ordinary]
FOREIGN = [word_level, word_piece, sentencepiece_bpe, unigram]
NORMALISED = [
    lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFC()),
    lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFKC()),
]


def tokenizer_json(make: Callable[[], Tokenizer]) -> bytes:
    return str(make().to_str()).encode()


def split_pre_tokenizer(pattern: str) -> Any:
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, level])


def word_end_tokenizer(pre_tokenizer: Any) -> bytes:
    """A tokenizer whose merges show the ends of words.

    An ASCII letter, digit or dot merges with the first byte of the next character of its word.
    """
    symbols = dict(enumerate(BYTE_SYMBOLS))
    vocabulary = {symbol: byte for byte, symbol in symbols.items()}
    merges = [(left, symbols[lead]) for left in "eA1." for lead in range(0xC2, 0xF5)]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    tokenizer.add_special_tokens([EOS])
    return str(tokenizer.to_str()).encode()
