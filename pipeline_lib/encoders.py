"""The one address of the tokenizer libraries, beside ``trainers``: text to ids.

Two encoders stand behind one small interface. ``tokenizers`` is the reference. gigatoken is
tens of times faster and does the work where a probe proves it equal to the reference; where
it is not, the reference is used and the log says so.
"""

import importlib.metadata
import json
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as ReferenceTokenizer

from pipeline_lib import letters
from pipeline_lib.errors import EncoderMismatch, TokenizerError

__all__ = [
    "Encoded",
    "Encoder",
    "FastEncoder",
    "ReferenceEncoder",
    "ReferenceTokenizer",
    "check",
    "choose_encoder",
    "compare",
    "confirm",
    "open_reference",
]

KINDS = ("auto", "gigatoken", "tokenizers")
PROBE_SECONDS = 0.1
PROBE_BYTES = 64 << 10
RENEW_BYTES, FORGET_BYTES = 1 << 30, 128 << 20
"""Text after which the fast encoder forgets its words in any case, and on being asked to."""
_LOG = logging.getLogger(__name__)


class Encoded(NamedTuple):
    """Ids of several texts one after another, nothing added.

    ``ids``: uint32, all texts; ``offsets``: int64, one more than there are texts; text ``i``
    is ``ids[offsets[i]:offsets[i + 1]]``.
    """

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]


class Encoder(Protocol):
    """Turns UTF-8 texts into ids; the text of a control token inside one is plain text.

    ``threads``: how many callers at a time use the machine best.
    """

    name: str
    version: str
    threads: int

    def encode(self, texts: Sequence[bytes]) -> Encoded:
        """Ids of the texts, in order."""

    def forget(self) -> None:
        """Let go of what is kept of earlier texts to be faster, if it is much."""


def open_reference(tokenizer_json: bytes) -> ReferenceTokenizer:
    """The reference implementation with special tokens in text switched off.

    The switch is not part of the file, so it is set on every load. ``TokenizerError`` if the
    library can not read the file or would number an added token otherwise than the file says.
    """
    try:
        reference = ReferenceTokenizer.from_str(tokenizer_json.decode("utf-8"))
    except Exception as error:  # the library raises bare Exception for every fault of a file
        raise TokenizerError(
            f"the tokenizer.json can not be loaded: {error}; export it again with a current "
            "version of tokenizers"
        ) from error
    reference.no_truncation()
    reference.no_padding()
    reference.encode_special_tokens = True
    return reference


class ReferenceEncoder:
    """``tokenizers``: exact by definition, about 1 MB/s a core; has threads of its own."""

    name, threads = "tokenizers", 1

    def __init__(self, tokenizer_json: bytes) -> None:
        self.version = importlib.metadata.version("tokenizers")
        self.tokenizer_json = tokenizer_json
        self.tokenizer = open_reference(tokenizer_json)

    def encode(self, texts: Sequence[bytes]) -> Encoded:
        """Ids of the texts, in order."""
        strings = [text.decode("utf-8") for text in texts]
        found = self.tokenizer.encode_batch_fast(strings, add_special_tokens=False)
        parts = [encoding.ids for encoding in found]
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        flat = [token for part in parts for token in part]
        return _checked(Encoded(np.array(flat, np.uint32), offsets), len(texts))

    def forget(self) -> None:
        """Nothing: the library's cache of words is small."""


class FastEncoder:
    """gigatoken: 40 MB/s a core and more; must be proved equal before it is used.

    It gets the file without its special tokens, because it would match them in text; the
    ordinary added tokens keep their meaning. Texts with letters that only one of the libraries
    knows go to the reference. Its cache of words grows with the text seen, so the engine is
    renewed after every ``renew_bytes`` of it, or earlier, when ``forget`` is called.

    Of its own it would cut a call's texts at every two mebibytes, one piece for each thread, and
    copy the ids together. Calls of that size, one for each core at a time, save the copy and the
    clearing of its pages.
    """

    name = "gigatoken"

    def __init__(
        self,
        tokenizer_json: bytes,
        reference: "ReferenceEncoder | None" = None,
        renew_bytes: int = RENEW_BYTES,
    ) -> None:
        self.version = importlib.metadata.version("gigatoken")
        self._tokenizer_json, self._reference = tokenizer_json, reference
        self._renew_bytes = renew_bytes
        self._json = _without_special_tokens(tokenizer_json.decode())
        self.threads = os.cpu_count() or 1
        self._idle, self._busy = threading.Condition(), 0
        self._renew()

    def _renew(self) -> None:
        from gigatoken.gigatoken_rs import load_hf_json

        self._engine: Any = None  # the old cache goes before the new one comes
        self._engine = load_hf_json(self._json)
        self._seen = 0

    def _layout(self, texts: list[bytes]) -> Any:
        """What the engine makes of the texts; while it is at work it is not renewed."""
        with self._idle:
            while self._seen >= self._renew_bytes:
                if self._busy:
                    self._idle.wait()
                else:
                    self._renew()
            self._seen += sum(map(len, texts))
            self._busy += 1
        try:
            return self._engine.encode_batch(texts).layout  # no name here holds an old engine
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def encode(self, texts: Sequence[bytes]) -> Encoded:
        """Ids of the texts, in order."""
        if not texts:
            return Encoded(np.empty(0, np.uint32), np.zeros(1, np.int64))
        layout = self._layout(list(texts))
        offsets = np.asarray(layout.offsets.data, np.int64)
        ids = np.asarray(layout.content.data, np.uint32)
        encoded = _checked(Encoded(ids, offsets), len(texts))
        places = [place for place, text in enumerate(texts) if letters.is_disputed(text)]
        return encoded if not places else self._corrected(encoded, texts, places)

    def forget(self) -> None:
        """Have the engine renewed before the next call, once that is worth its time."""
        with self._idle:
            if self._seen >= FORGET_BYTES:
                self._seen = self._renew_bytes

    def _corrected(self, encoded: Encoded, texts: Sequence[bytes], places: list[int]) -> Encoded:
        """With the reference's ids at some places."""
        self._reference = self._reference or ReferenceEncoder(self._tokenizer_json)
        right = self._reference.encode([texts[place] for place in places])
        parts = np.split(encoded.ids, encoded.offsets[1:-1])
        for place, ids in zip(places, np.split(right.ids, right.offsets[1:-1]), strict=True):
            parts[place] = ids
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        return Encoded(np.concatenate(parts), offsets)


def _without_special_tokens(text: str) -> str:
    """The file without its special tokens and post-processor.

    What ``tokenizer`` normalised needs no second parse of the vocabulary: nothing in a JSON
    text but a key looks like a quoted name with a colon behind it, and the one at the top
    comes before the model.
    """
    before, name, rest = text.partition('"added_tokens": ')
    if name and '"post_processor": null' in rest and '"model": ' not in before:
        added, end = json.JSONDecoder().raw_decode(rest)
        return before + name + json.dumps(_ordinary(added or [])) + rest[end:]
    fields = json.loads(text)
    kept = _ordinary(fields.get("added_tokens") or [])
    return json.dumps({**fields, "added_tokens": kept, "post_processor": None})


def _ordinary(added: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [token for token in added if not token.get("special")]


def _checked(encoded: Encoded, texts: int) -> Encoded:
    ids, offsets = encoded
    whole = len(offsets) == texts + 1 and offsets[0] == 0 and offsets[-1] == len(ids)
    if not whole or (np.diff(offsets) < 0).any():
        raise EncoderMismatch(
            f"the encoder returned {len(offsets) - 1} encodings for {texts} texts, or offsets "
            "that do not fit its ids; run again with --encoder tokenizers"
        )
    return encoded


def choose_encoder(
    reference: ReferenceEncoder, kind: str = "auto", renew_bytes: int = RENEW_BYTES
) -> Encoder:
    """The encoder to use: the fast one where it agrees with the reference on nasty strings.

    ``kind`` "gigatoken" makes a failed probe an ``EncoderMismatch`` instead of a fall back;
    "tokenizers" takes the reference at once.
    """
    if kind not in KINDS:
        raise ValueError(f"encoder is {kind!r}; choose one of {', '.join(KINDS)}")
    if kind == "tokenizers":
        return reference
    try:
        fast = FastEncoder(reference.tokenizer_json, reference, renew_bytes)
        compare(reference, fast, NASTY)
    except (ImportError, ValueError, RuntimeError, TypeError, EncoderMismatch) as error:
        return fall_back(reference, kind, error)
    return fast


def fall_back(reference: ReferenceEncoder, kind: str, error: Exception) -> ReferenceEncoder:
    """The reference, with a warning; ``EncoderMismatch`` if the fast encoder was demanded."""
    reason = " ".join(str(error).split())  # the library's texts have several lines
    if kind == "gigatoken":
        raise EncoderMismatch(
            f"gigatoken can not be used here: {reason}; choose --encoder tokenizers or auto"
        ) from error
    _LOG.warning("using the reference encoder, which is much slower: %s", reason)
    return reference


def confirm(
    reference: ReferenceEncoder,
    chosen: Encoder,
    kind: str,
    texts: Sequence[bytes],
    encoded: Encoded,
) -> Encoder:
    """``chosen`` if ``encoded``, its ids of the first documents, are also the reference's.

    Spends at most ``PROBE_SECONDS`` on the reference, so long texts are passed over; where all
    are long, their beginnings are compared.
    """
    if chosen is reference:
        return chosen
    deadline = time.monotonic() + PROBE_SECONDS
    short = [index for index, text in enumerate(texts) if len(text) <= PROBE_BYTES]
    try:
        for index in short:
            if time.monotonic() > deadline:
                break
            check(reference, texts, encoded, index)
        if not short:
            compare(reference, chosen, [_beginning(text) for text in texts[:1]])
    except EncoderMismatch as error:
        return fall_back(reference, kind, error)
    return chosen


def _beginning(text: bytes) -> bytes:
    return text[:PROBE_BYTES].decode("utf-8", "ignore").encode()


def compare(reference: Encoder, fast: Encoder, texts: Sequence[bytes]) -> None:
    """``EncoderMismatch`` unless both encoders give the same ids for every text."""
    encoded = fast.encode(texts)
    for index in range(len(texts)):
        check(reference, texts, encoded, index)


def check(reference: Encoder, texts: Sequence[bytes], encoded: Encoded, index: int) -> None:
    """``EncoderMismatch`` unless the ids of one text in ``encoded`` are the reference's."""
    right = reference.encode([texts[index]]).ids
    found = encoded.ids[encoded.offsets[index] : encoded.offsets[index + 1]]
    if not np.array_equal(right, found):
        raise EncoderMismatch(
            f"the fast encoder gives {found[:8].tolist()}... where {reference.name} "
            f"{reference.version} gives {right[:8].tolist()}... for the text {texts[index][:60]!r}"
        )


def _nasty() -> list[bytes]:
    spaces = [" " * 70, "\n" * 9, "\t\t \n \r\n", " \u00a0\u3000", "\u2028", " ", "\n"]
    runs = ["a" * 300, "=" * 90, "0123456789" * 9, "\x00\x01", "\U0010ffff"]
    words = ["I'm we'll DON'T it's'S", "\t's \n'd x'T", "naïve café Straße Ǆ", "a\u0301e\u0308"]
    scripts = ["日本語と中文字。", "Привет, мир", "नमस्ते", "مرحبا", "ไทยไม่มีช่องว่าง", "\ufeffBOM"]
    emoji = ["\U0001f469\u200d\U0001f467", "\U0001f3f3\ufe0f\u200d\U0001f308", "½²³①Ⅷ"]
    marks = ["<|endoftext|><|im_start|>user<|im_sep|>", "[INST] <s></s> <pad>"]
    code = ["def f(x):\n        return x[1:-1]\n", '{"a": [1,2.5e-3]}', "https://a.b/c?d=e&f#g"]
    edges = ["", "'", " '", "a ", " a", "  a  b", "A"]
    texts = [*spaces, *runs, *words, *scripts, *emoji, *marks, *code, *edges]
    return [text.encode() for text in texts]


NASTY: tuple[bytes, ...] = tuple(_nasty())
"""Short texts on which tokenizers have been seen to differ."""
