"""Tokenizers of every kind, made here: byte-level ones, other families, normalised ones."""

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

from pipeline_lib.tokenization import bpe_training
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
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[EOS], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    made.train_from_iterator(SOME, trainer)
    return made


def gpt2() -> Tokenizer:
    return bpe(pre_tokenizers.ByteLevel(add_prefix_space=False))


def gpt4() -> Tokenizer:
    split = pre_tokenizers.Split(Regex(GPT4_SPLIT), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return bpe(pre_tokenizers.Sequence([split, level]))


def with_runs_of_spaces() -> Tokenizer:
    """Added tokens that are ordinary text, stored behind a special one, as some models have."""
    made = gpt2()
    runs = [AddedToken(" " * n, normalized=True, special=False) for n in (24, 12, 6, 3, 2)]
    made.add_tokens([*runs, AddedToken("\n\n\n", special=False)])
    return made


def specials_before_ordinary() -> Tokenizer:
    made = gpt2()
    made.add_special_tokens(["<|a|>", "<|b|>"])
    made.add_tokens([AddedToken("def ", special=False), AddedToken("    ", special=False)])
    made.add_special_tokens(["<|c|>"])
    return made


def word_level() -> Tokenizer:
    words = {word: n for n, word in enumerate([EOS, "<unk>", "the", "of", "river", "stone"])}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens([EOS])
    return made


def word_piece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer, made.normalizer = pre_tokenizers.BertPreTokenizer(), normalizers.Lowercase()
    made.train_from_iterator(
        SOME, trainers.WordPieceTrainer(vocab_size=400, special_tokens=["[UNK]", EOS])
    )
    return made


def sentencepiece_bpe() -> Tokenizer:
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    special = ["<unk>", EOS, *(f"<0x{n:02X}>" for n in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    made.train_from_iterator(SOME, trainer)
    return made


def unigram() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>", EOS], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(texts(300), trainer)
    return made


BYTE_LEVEL = [gpt2, gpt4, with_runs_of_spaces, specials_before_ordinary]
FOREIGN = [word_level, word_piece, sentencepiece_bpe, unigram]
NORMALISED = [
    lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFC()),
    lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFKC()),
]


def json_of(make: Callable[[], Tokenizer]) -> bytes:
    return str(make().to_str()).encode()


def split_by(pattern: str) -> Any:
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, level])


def telling(pre_tokenizer: Any) -> bytes:
    """A tokenizer whose merges show where a word ends: an ASCII letter, digit or dot joins the
    first byte of whatever character stands behind it in the same word."""
    symbols = dict(enumerate(bpe_training._byte_symbols()))
    vocabulary = {symbol: byte for byte, symbol in symbols.items()}
    merges = [(left, symbols[lead]) for left in "eA1." for lead in range(0xC2, 0xF5)]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer, made.decoder = pre_tokenizer, decoders.ByteLevel()
    made.add_special_tokens([EOS])
    return str(made.to_str()).encode()
