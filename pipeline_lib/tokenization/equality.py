"""The choice of encoder: the fast one, if it proves equal to the reference.

The proof starts with strings on which tokenizers are known to differ (``NASTY``), continues with
the first documents of a run (``confirm``), and never ends: single later documents are compared too
(``check``). If it fails at the start, the reference is used and the log says so.
"""

import logging
import time
from collections.abc import Sequence

import numpy as np

from pipeline_lib.errors import EncoderMismatch
from pipeline_lib.tokenization.fast import RENEW_BYTES, FastEncoder
from pipeline_lib.tokenization.reference import Encoded, Encoder, ReferenceEncoder

KINDS = ("auto", "gigatoken", "tokenizers")
PROBE_SECONDS = 0.1
PROBE_BYTES = 64 << 10
_LOG = logging.getLogger(__name__)


def choose_encoder(
    reference: ReferenceEncoder, kind: str = "auto", renew_bytes: int = RENEW_BYTES
) -> Encoder:
    """The encoder to use: the fast one if it agrees with the reference on ``NASTY``.

    ``kind``: if the two disagree, "auto" takes the reference and "gigatoken" raises
    ``EncoderMismatch``; "tokenizers" always takes the reference; ``ValueError`` for another kind.
    ``renew_bytes``: see ``FastEncoder``.
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
"""Short texts on which tokenizers are known to differ."""
