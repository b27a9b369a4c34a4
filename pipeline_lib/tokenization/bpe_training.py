"""Training a byte-level BPE: by the reference trainer, or by a faster one that proves equal.

``tokenizers`` defines the result. gigatoken finds the same merges several times faster. Its result
is used if three conditions hold; otherwise the reference trains, and the log says so.

1. On difficult strings (``NASTY``) and the start of the run's own texts it finds the same first
   merges as the reference, in the same order.
2. The texts have ``WORDS`` different words for each wanted merge. With fewer words many pairs are
   equally rare, and gigatoken is slower than the reference.
3. The last merge occurs in the texts. When no pair is left, the reference stops, but gigatoken
   continues with pairs that do not occur any more.
"""

import contextlib
import importlib.metadata
import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tokenizers import Tokenizer as ReferenceTokenizer
from tokenizers import decoders, models, pre_tokenizers, trainers

from pipeline_lib.errors import EncoderMismatch
from pipeline_lib.tokenization.byte_symbols import BYTE_SYMBOLS, symbols
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.disputed_unicode import is_disputed
from pipeline_lib.tokenization.equality import NASTY, NOT_USABLE
from pipeline_lib.tokenization.reference import open_reference
from pipeline_lib.tokenization.training_texts import BOUNDARY, LONGEST, TrainingTexts

PROBE_BYTES, PROBE_MERGES = 1 << 20, 4_000
WORDS = 3
_SEARCHED, _COUNTED = 8 << 20, 2 << 20
_WORD = re.compile(r"[^\W\d_]{2,}")
_LOG = logging.getLogger(__name__)

Merges = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class TrainingFacts:
    """How a tokenizer was trained.

    ``trainer`` and ``version``: the library, which does not change the result. ``texts`` and
    ``bytes``: the amount of training text. ``cuts``: the number of cuts in long runs.
    """

    trainer: str = ""
    version: str = ""
    texts: int = 0
    bytes: int = 0
    cuts: int = 0


class TrainingResult(NamedTuple):
    """A trained ``tokenizer.json`` (UTF-8), and how it was trained."""

    json: bytes
    facts: TrainingFacts


def check_vocab_size(vocab_size: int) -> None:
    """``ValueError`` unless ``vocab_size`` is an int with room for the 256 byte symbols and the
    control tokens."""
    smallest = len(CONTROL_TOKENS) + 256
    if isinstance(vocab_size, bool) or not isinstance(vocab_size, int) or vocab_size < smallest:
        raise ValueError(
            f"vocab_size is {vocab_size!r}; {smallest} is the smallest possible: 256 bytes and "
            f"{len(CONTROL_TOKENS)} control tokens"
        )


def train_bpe(
    texts: Iterable[str], vocab_size: int, special_tokens: Sequence[str] = CONTROL_TOKENS
) -> TrainingResult:
    """Train a byte-level BPE; equal texts give equal bytes, with any trainer and thread count.

    ``special_tokens`` get the first ids; all 256 byte symbols are always included. ``texts`` must
    not contain rendered control tokens. All texts are in memory at the same time, so limit their
    size. If no pair to merge is left, there are fewer ids than ``vocab_size``. ``ValueError`` as
    for ``check_vocab_size``.
    """
    check_vocab_size(vocab_size)
    corpus = TrainingTexts(texts)
    wanted = vocab_size - len(special_tokens) - 256
    library, made = "tokenizers", None
    if len(corpus.data) > PROBE_BYTES and _has_words(corpus, WORDS * wanted):
        try:
            made, library = _fast(corpus, vocab_size, special_tokens), "gigatoken"
        except NOT_USABLE as error:
            reason = " ".join(str(error).split())
            _LOG.warning("training with the reference trainer, which is slower: %s", reason)
    if made is None:
        pieces = (piece for block in corpus.blocks(_SEARCHED) for piece in block)
        made = train_reference(pieces, vocab_size, special_tokens)
    size = len(corpus.data)
    version = importlib.metadata.version(library)
    _LOG.info(
        "trained by %s %s on %s bytes of %s texts; %s cuts in runs over %s characters",
        *(library, version, f"{size:,}", f"{corpus.texts:,}", f"{corpus.cuts:,}", LONGEST),
    )
    facts = TrainingFacts(library, version, corpus.texts, size, corpus.cuts)
    return TrainingResult(made, facts)


def train_reference(
    pieces: Iterable[bytes], vocab_size: int, special_tokens: Sequence[str]
) -> bytes:
    """``tokenizer.json`` from the reference trainer; ``pieces`` are UTF-8."""
    tokenizer = _untrained(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((piece.decode() for piece in pieces), trainer)
    return str(tokenizer.to_str()).encode()


def _untrained(model: models.BPE) -> ReferenceTokenizer:
    tokenizer = ReferenceTokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _fast(corpus: TrainingTexts, vocab_size: int, special_tokens: Sequence[str]) -> bytes:
    """``tokenizer.json`` from the fast trainer; ``EncoderMismatch`` if it is not proved equal."""
    wanted = vocab_size - len(special_tokens) - 256
    if any(is_disputed(piece) for block in corpus.blocks(_SEARCHED) for piece in block):
        raise EncoderMismatch("the texts hold letters that only one of the trainers knows")
    _prove(corpus, vocab_size, special_tokens)
    merges = _fast_merges(corpus.data, wanted)
    made = assemble(merges, special_tokens)
    if len(merges) != wanted or (merges and not _occurs(corpus, made, merges[-1])):
        raise EncoderMismatch(f"the texts do not have {wanted:,} pairs to merge")
    return made


def _has_words(corpus: TrainingTexts, count: int) -> bool:
    """Whether the texts have at least ``count`` different words."""
    words: set[str] = set()
    for block in corpus.blocks(_COUNTED):
        different = set(b" ".join(block).decode().split())
        words.update(_WORD.findall(" ".join(different)))
        if len(words) >= count:
            return True
    return False


def _prove(corpus: TrainingTexts, vocab_size: int, special_tokens: Sequence[str]) -> None:
    sample = [*NASTY, *corpus.start(PROBE_BYTES)]
    most = len(special_tokens) + 256 + PROBE_MERGES
    reference = train_reference(sample, min(vocab_size, most), special_tokens)
    expected = json.loads(reference)["model"]["merges"]
    joined = BOUNDARY.join(sample)
    found = _fast_merges(joined, len(expected))
    if assemble(found, special_tokens) != reference:
        pairs = [list(map(symbols, pair)) for pair in found]
        both = enumerate(zip(pairs, expected, strict=False))
        place, (wrong, right) = next(((i, p) for i, p in both if p[0] != p[1]), (0, ([], [])))
        raise EncoderMismatch(f"gigatoken's merge {place} is {wrong} where tokenizers has {right}")


def _fast_merges(data: bytes, count: int) -> Merges:
    import gigatoken

    with _quiet():
        _, merges = gigatoken.train_bpe(data, 256 + count, [], separator=BOUNDARY)
    return [(bytes(left), bytes(right)) for left, right in merges]


def assemble(merges: Merges, special_tokens: Sequence[str]) -> bytes:
    """``tokenizer.json`` from merges, with the same ids as from the reference trainer."""
    pairs = [(symbols(left), symbols(right)) for left, right in merges]
    names = [*special_tokens, *sorted(BYTE_SYMBOLS), *(left + right for left, right in pairs)]
    vocabulary = {name: number for number, name in enumerate(dict.fromkeys(names))}
    tokenizer = _untrained(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.add_special_tokens(list(special_tokens))
    return str(tokenizer.to_str()).encode()


def _occurs(corpus: TrainingTexts, tokenizer_json: bytes, last: tuple[bytes, bytes]) -> bool:
    """Whether some text is encoded with the token of the last merge."""
    reference, joined = open_reference(tokenizer_json), last[0] + last[1]
    token = reference.token_to_id(symbols(joined))
    return any(
        token in reference.encode(piece.decode(), add_special_tokens=False).ids
        for block in corpus.blocks(_COUNTED)
        for piece in block
        if joined in piece
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Discard output to both standard streams; the library writes to their descriptors."""
    streams: list[Any] = [sys.stdout, sys.stderr]
    for stream in streams:
        stream.flush()
    kept = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)
        os.close(nowhere)
