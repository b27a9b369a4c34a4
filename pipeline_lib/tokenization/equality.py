"""The choice of encoder: the fast one, if it proves equal to the reference.

First every feature of the tokenizer file must be on the list of ``admission``. The proof goes on
with strings on which tokenizers are known to differ (``NASTY``) and with some made from the
tokenizer's own tokens (``own_texts``), continues with the first documents of a run (``confirm``),
and never ends: single later documents are compared too (``check``). If it fails at the start, the
reference is used and the log says so.
"""

import json
import logging
import time
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from pipeline_lib.errors import EncoderMismatch, TextRefused
from pipeline_lib.tokenization.admission import Fields
from pipeline_lib.tokenization.byte_symbols import spelled_bytes
from pipeline_lib.tokenization.fast import RENEW_BYTES, admitted
from pipeline_lib.tokenization.reference import Encoded, Encoder, ReferenceEncoder

Item = TypeVar("Item")

KINDS = ("auto", "gigatoken", "tokenizers")
PROBE_SECONDS = 0.1
PROBE_BYTES = 64 << 10
OWN_TOKENS = 64
"""Added tokens, and merges, from which probes are made; more are taken evenly."""
NOT_USABLE = (
    ImportError, AttributeError, ValueError, RuntimeError, TypeError, EncoderMismatch,
)  # fmt: skip
"""What an engine of another version, or one that can not read a file, may raise."""
_LOG = logging.getLogger(__name__)


def choose_encoder(
    reference: ReferenceEncoder, kind: str = "auto", renew_bytes: int = RENEW_BYTES
) -> Encoder:
    """The encoder to use: the fast one if it is admitted and agrees with the reference on probes.

    ``kind``: if the two disagree, "auto" takes the reference and "gigatoken" raises
    ``EncoderMismatch``; "tokenizers" always takes the reference; ``ValueError`` for another kind.
    ``renew_bytes``: see ``FastEncoder``.
    """
    if kind not in KINDS:
        raise ValueError(f"encoder is {kind!r}; choose one of {', '.join(KINDS)}")
    if kind == "tokenizers":
        return reference
    try:
        fields = json.loads(reference.tokenizer_json)
        fast = admitted(fields, reference, renew_bytes)
        compare(reference, fast, [*NASTY, *own_texts(fields)])
    except NOT_USABLE as error:
        return fall_back(reference, kind, error)
    return fast


def fall_back(reference: ReferenceEncoder, kind: str, error: Exception) -> ReferenceEncoder:
    """The reference, with a warning; ``EncoderMismatch`` if ``kind`` demands the fast encoder."""
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
    """``chosen`` if it agrees with the reference on the first documents, else ``fall_back``.

    ``encoded``: the ids that ``chosen`` gave for ``texts``. The reference gets at most
    ``PROBE_SECONDS``, so long texts are skipped; if all are long, the start of the first one is
    compared.
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
    """``EncoderMismatch`` unless the reference gives text ``index`` the same ids as ``encoded``."""
    try:
        right = reference.encode([texts[index]]).ids
    except TextRefused as error:
        raise EncoderMismatch(f"the fast encoder gives ids to a text, but {error}") from error
    found = encoded.ids[encoded.offsets[index] : encoded.offsets[index + 1]]
    if not np.array_equal(right, found):
        raise EncoderMismatch(
            f"the fast encoder gives {found[:8].tolist()}... where {reference.name} "
            f"{reference.version} gives {right[:8].tolist()}... for the text {texts[index][:60]!r}"
        )


def own_texts(fields: Fields) -> list[bytes]:
    """Probes made from the added tokens and merges of a tokenizer file, given parsed."""
    added = [token["content"].encode() for token in fields.get("added_tokens") or []]
    merges = _evenly(fields["model"]["merges"])
    texts = []
    for token in _evenly(added):
        texts += [b"a" + token + b"a", token * 2, b" " + token + b" ", token[:-1].strip() + token]
    for left, right in (m.split(" ", 1) if isinstance(m, str) else m for m in merges):
        one, other = spelled_bytes(left), spelled_bytes(right)
        texts += [one + other, b" " + other + one + other, one * 3 + other * 2]
    return [text.decode("utf-8", "ignore").encode() for text in texts]


def _evenly(found: Sequence[Item]) -> Sequence[Item]:
    return found[:: -(-len(found) // OWN_TOKENS) or 1]


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
"""Short texts on which tokenizers are known to differ."""
