"""The fast encoder, gigatoken: tens of times faster than the reference, used if it proves equal."""

import contextlib
import importlib.metadata
import json
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pipeline_lib.errors import EncoderMismatch
from pipeline_lib.tokenization import added_tokens
from pipeline_lib.tokenization.admission import Fields, admission
from pipeline_lib.tokenization.disputed_unicode import (
    DISPUTED,
    DISPUTED_IN_NFC,
    DisputedCharacters,
)
from pipeline_lib.tokenization.reference import Encoded, ReferenceEncoder, checked

TESTED = {"gigatoken": ("0.10.0",), "tokenizers": ("0.23.3",)}
"""Library -> the versions of which the tests have compared every admitted feature."""
RENEW_BYTES, DROP_CACHE_BYTES = 1 << 30, 128 << 20
"""Bytes of text after which the encoder drops its cache of words: always, and on ``drop_cache``."""
_NO_POST_PROCESSOR = '"post_processor": null'


class FastEncoder:
    """gigatoken: 40 MB/s per core and more; it must be proved equal before it is used.

    It gets the tokenizer file without special tokens, because it would match them in text; ordinary
    added tokens stay. The reference encodes texts with letters that only one of the libraries
    knows. gigatoken's cache of words grows with the text, so the engine is renewed after every
    ``renew_bytes`` of text, or earlier if ``drop_cache`` is called.

    Pass about two mebibytes of text per call, and make one call per core at the same time.
    gigatoken cuts a larger call into pieces of that size, one for each thread, and copies the ids
    together. Calls of that size save the copy and the clearing of its pages.
    """

    name = "gigatoken"

    def __init__(
        self,
        tokenizer_json: bytes,
        reference: ReferenceEncoder | None = None,
        renew_bytes: int = RENEW_BYTES,
        composes: bool = False,
    ) -> None:
        self.version = importlib.metadata.version("gigatoken")
        self._guard = DisputedCharacters(DISPUTED_IN_NFC if composes else DISPUTED)
        self._tokenizer_json, self._reference = tokenizer_json, reference
        self._renew_bytes = renew_bytes
        self._json = _without_special_tokens(tokenizer_json.decode())
        self.threads = os.cpu_count() or 1
        self._idle, self._busy = threading.Condition(), 0
        self._renew()

    def _renew(self) -> None:
        from gigatoken.gigatoken_rs import load_hf_json

        self._engine: Any = None  # free the old cache before the new engine is made
        with _faults():
            self._engine = load_hf_json(self._json)
        self._seen = 0

    def _layout(self, texts: list[bytes]) -> Any:
        """The engine's ids and offsets of the texts; the engine is not renewed while it works."""
        with self._idle:
            while self._seen >= self._renew_bytes:
                if self._busy:
                    self._idle.wait()
                else:
                    self._renew()
            self._seen += sum(map(len, texts))
            self._busy += 1
        try:
            with _faults():
                return self._engine.encode_batch(texts).layout  # a name would keep the engine
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
        encoded = checked(Encoded(ids, offsets), len(texts))
        places = [place for place, text in enumerate(texts) if self._guard.are_in(text)]
        return encoded if not places else self._corrected(encoded, texts, places)

    def drop_cache(self) -> None:
        """Renew the engine before the next call, if its cache is large enough to be worth it."""
        with self._idle:
            if self._seen >= DROP_CACHE_BYTES:
                self._seen = self._renew_bytes

    def _corrected(self, encoded: Encoded, texts: Sequence[bytes], places: list[int]) -> Encoded:
        """The encodings with the ids of the reference at some places."""
        self._reference = self._reference or ReferenceEncoder(self._tokenizer_json)
        right = self._reference.encode([texts[place] for place in places])
        parts = np.split(encoded.ids, encoded.offsets[1:-1])
        for place, ids in zip(places, np.split(right.ids, right.offsets[1:-1]), strict=True):
            parts[place] = ids
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        return Encoded(np.concatenate(parts), offsets)


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """A panic inside the engine, which is no ``Exception``, becomes an ``EncoderMismatch``."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise EncoderMismatch(f"gigatoken stopped by itself: {error}") from error


def admitted(
    fields: Fields, reference: ReferenceEncoder, renew_bytes: int = RENEW_BYTES
) -> FastEncoder:
    """The fast encoder for the reference's file, if every feature of it is on the list.

    ``fields``: the file, parsed. ``EncoderMismatch`` says which is not, or which library is of a
    version that is not tested; other errors are the engine's own.
    """
    for library, tested in TESTED.items():
        if (version := importlib.metadata.version(library)) not in tested:
            raise EncoderMismatch(
                f"{library} {version} was not compared with the reference; tested is "
                f"{', '.join(tested)}"
            )
    found = admission(fields)
    if found.obstacle is not None:
        raise EncoderMismatch(f"the tokenizer has {found.obstacle}")
    return FastEncoder(reference.tokenizer_json, reference, renew_bytes, found.composes)


def _without_special_tokens(text: str) -> str:
    """The tokenizer file without its special tokens and post-processor."""
    if _NO_POST_PROCESSOR not in text:
        text = json.dumps({**json.loads(text), "post_processor": None})
    kept = [token for token in added_tokens.read(text) if not token.get("special")]
    return added_tokens.replaced(text, kept)
