"""Training a byte-level BPE: the reference trainer, and a faster one where it proves equal.

``tokenizers`` defines the result. gigatoken finds the same merges several times faster, and its
result is used when this holds: on the start of the run's own texts, with nasty strings in front,
it finds the reference's first merges in the reference's order; the texts have ``WORDS`` different
words for each merge that is wanted; and the last merge occurs in them. Otherwise the reference
trains, and the log says so. (With fewer words many pairs are equally rare, where gigatoken is
slower than the reference; with none left the reference stops, and gigatoken goes on with pairs
that do not occur any more.)

A run of characters without a space, or of nothing but spaces, costs time for every merge by its
length. Runs over ``LONGEST`` characters are cut there, for training only, and counted.
"""

import contextlib
import importlib.metadata
import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as ReferenceTokenizer
from tokenizers import decoders, models, pre_tokenizers, trainers

from pipeline_lib.encoders import NASTY, open_reference
from pipeline_lib.errors import EncoderMismatch
from pipeline_lib.letters import is_disputed

LONGEST = 256
PROBE_BYTES, PROBE_MERGES = 1 << 20, 4_000
WORDS = 3
_SEARCHED, _COUNTED = 8 << 20, 2 << 20
_BOUNDARY = b"\xff"  # no byte of UTF-8
_RUN = re.compile(rf"\S{{{LONGEST}}}(?=\S)|\s{{{LONGEST}}}(?=\s)")
_GAP = re.compile(rf"\s{{{LONGEST + 1}}}")
_WORD = re.compile(r"[^\W\d_]{2,}")
_SPACE, _NO_ASCII = 0x20, 0x80
_LOG = logging.getLogger(__name__)

Merges = list[tuple[bytes, bytes]]


class Trained(NamedTuple):
    """A trained tokenizer and how it came about.

    ``json`` is the ``tokenizer.json``; ``trainer`` and ``version`` name the library, which
    decides no byte; ``texts`` and ``bytes`` were trained on, ``cuts`` were made in long runs.
    """

    json: bytes
    trainer: str
    version: str
    texts: int
    bytes: int
    cuts: int


class Corpus:
    """All training texts in one buffer: UTF-8, each ended by a byte that no text has."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._buffer = io.BytesIO()
        self.texts = self.cuts = 0
        for text in texts:
            whole = text.encode()
            pieces = [piece.encode() for piece in cut_runs(text)] if _may_run(whole) else [whole]
            self.texts += 1
            self.cuts += len(pieces) - 1
            for piece in pieces:
                self._buffer.write(piece)
                self._buffer.write(_BOUNDARY)
        self.data = self._buffer.getvalue()

    def start(self, size: int) -> list[bytes]:
        """The first pieces, about ``size`` bytes of them."""
        return self.data[:size].split(_BOUNDARY)[:-1]

    def blocks(self, size: int) -> Iterator[list[bytes]]:
        """All pieces, about ``size`` bytes at a time."""
        start = 0
        while start < len(self.data):
            stop = self.data.find(_BOUNDARY, min(start + size, len(self.data) - 1)) + 1
            yield self.data[start : stop - 1].split(_BOUNDARY)
            start = stop


def cut_runs(text: str) -> list[str]:
    """The text in pieces without a run of over ``LONGEST`` characters; mostly one piece."""
    ends = [match.end() for match in _RUN.finditer(text)] if _has_run(text) else []
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


def _may_run(text: bytes) -> bool:
    """Whether there may be a run to cut; where not, as nearly always, bytes alone say so.

    Over ``LONGEST`` characters without a space lie between two bytes that may be one, and that
    many spaces between two bytes that are none; what is not ASCII may be either.
    """
    if len(text) <= LONGEST:
        return False
    data = np.frombuffer(text, np.uint8)
    return _has_gap(data <= _SPACE) or _has_gap((data > _SPACE) & (data < _NO_ASCII))


def _has_gap(marked: NDArray[np.bool_]) -> bool:
    places = np.flatnonzero(marked)
    if len(places) == 0:
        return True
    ends = max(int(places[0]), len(marked) - 1 - int(places[-1]))
    return max(ends, int(np.diff(places).max(initial=1)) - 1) > LONGEST


def _has_run(text: str) -> bool:
    if len(text) <= LONGEST:
        return False
    return max(map(len, text.split()), default=0) > LONGEST or bool(_GAP.search(text))


def train_bpe(texts: Iterable[str], vocab_size: int, special_tokens: Sequence[str]) -> Trained:
    """A byte-level BPE; same texts, same bytes, any thread count, whichever trainer it was.

    ``special_tokens`` take the first ids, all 256 byte symbols are always included. Holds all
    texts at once.
    """
    corpus = Corpus(texts)
    wanted = vocab_size - len(special_tokens) - 256
    library, made = "tokenizers", None
    if len(corpus.data) > PROBE_BYTES and _has_words(corpus, WORDS * wanted):
        try:
            made, library = _fast(corpus, vocab_size, special_tokens), "gigatoken"
        except (ImportError, ValueError, RuntimeError, TypeError, EncoderMismatch) as error:
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
    return Trained(made, library, version, corpus.texts, size, corpus.cuts)


def train_reference(
    pieces: Iterable[bytes], vocab_size: int, special_tokens: Sequence[str]
) -> bytes:
    """``tokenizer.json`` by the reference trainer."""
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


def _fast(corpus: Corpus, vocab_size: int, special_tokens: Sequence[str]) -> bytes:
    """``tokenizer.json`` by the fast trainer; ``EncoderMismatch`` if it is not proved equal."""
    wanted = vocab_size - len(special_tokens) - 256
    if any(is_disputed(piece) for block in corpus.blocks(_SEARCHED) for piece in block):
        raise EncoderMismatch("the texts hold letters that only one of the trainers knows")
    _prove(corpus, vocab_size, special_tokens)
    merges = _fast_merges(corpus.data, wanted)
    made = assemble(merges, special_tokens)
    if len(merges) != wanted or (merges and not _occurs(corpus, made, merges[-1])):
        raise EncoderMismatch(f"the texts do not have {wanted:,} pairs to merge")
    return made


def _has_words(corpus: Corpus, count: int) -> bool:
    """Whether there are that many different words."""
    words: set[str] = set()
    for block in corpus.blocks(_COUNTED):
        different = set(b" ".join(block).decode().split())
        words.update(_WORD.findall(" ".join(different)))
        if len(words) >= count:
            return True
    return False


def _prove(corpus: Corpus, vocab_size: int, special_tokens: Sequence[str]) -> None:
    sample = [*NASTY, *corpus.start(PROBE_BYTES)]
    most = len(special_tokens) + 256 + PROBE_MERGES
    reference = train_reference(sample, min(vocab_size, most), special_tokens)
    expected = json.loads(reference)["model"]["merges"]
    joined = _BOUNDARY.join(sample)
    found = _fast_merges(joined, len(expected))
    if assemble(found, special_tokens) != reference:
        pairs = [list(map(_symbols, pair)) for pair in found]
        both = enumerate(zip(pairs, expected, strict=False))
        place, (wrong, right) = next(((i, p) for i, p in both if p[0] != p[1]), (0, ([], [])))
        raise EncoderMismatch(f"gigatoken's merge {place} is {wrong} where tokenizers has {right}")


def _fast_merges(data: bytes, count: int) -> Merges:
    import gigatoken

    with _quiet():
        _, merges = gigatoken.train_bpe(data, 256 + count, [], separator=_BOUNDARY)
    return [(bytes(left), bytes(right)) for left, right in merges]


def assemble(merges: Merges, special_tokens: Sequence[str]) -> bytes:
    """``tokenizer.json`` from merges, with the ids that the reference trainer gives."""
    pairs = [(_symbols(left), _symbols(right)) for left, right in merges]
    names = [*special_tokens, *sorted(_SYMBOL_OF), *(left + right for left, right in pairs)]
    vocabulary = {name: number for number, name in enumerate(dict.fromkeys(names))}
    tokenizer = _untrained(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.add_special_tokens(list(special_tokens))
    return str(tokenizer.to_str()).encode()


def _occurs(corpus: Corpus, tokenizer_json: bytes, last: tuple[bytes, bytes]) -> bool:
    """Whether the last merge's token is among the ids of some text that has its bytes."""
    reference, joined = open_reference(tokenizer_json), last[0] + last[1]
    token = reference.token_to_id(_symbols(joined))
    return any(
        token in reference.encode(piece.decode(), add_special_tokens=False).ids
        for block in corpus.blocks(_COUNTED)
        for piece in block
        if joined in piece
    )


def _byte_symbols() -> str:
    """The 256 characters that stand for bytes in a byte-level vocabulary, by byte."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return "".join(chr(byte if byte in shown else next(others)) for byte in range(256))


_SYMBOL_OF = _byte_symbols()


def _symbols(token: bytes) -> str:
    return "".join(_SYMBOL_OF[byte] for byte in token)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Both standard streams of the process to nowhere: the library writes to them directly."""
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
