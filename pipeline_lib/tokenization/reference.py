"""The reference encoder, ``tokenizers``, and the interface of every encoder."""

import functools
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken
from tokenizers import Tokenizer as ReferenceTokenizer

from pipeline_lib.errors import EncoderMismatch, TextRefused, TokenizerError

_ADDED = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")


class Encoded(NamedTuple):
    """Ids of several texts, one text after another, without added tokens.

    ``ids`` (uint32): all texts. ``offsets`` (int64): one more than there are texts; text ``i`` has
    the ids ``ids[offsets[i]:offsets[i + 1]]``.
    """

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]


class Encoder(Protocol):
    """Turns UTF-8 texts into ids; a control token that is spelled in a text stays plain text.

    ``threads``: the number of callers at the same time that uses the machine best.
    """

    name: str
    version: str
    threads: int

    def encode(self, texts: Sequence[bytes]) -> Encoded:
        """Ids of the texts, in order."""

    def drop_cache(self) -> None:
        """Free the cache of earlier texts if it is large."""


def open_reference(tokenizer_json: bytes) -> ReferenceTokenizer:
    """The reference implementation; it does not match special tokens in text.

    The file does not store this switch, so it is set on every load. ``TokenizerError`` if the
    library can not read the file.
    """
    try:
        reference = ReferenceTokenizer.from_str(tokenizer_json.decode("utf-8"))
    except Exception as error:  # the library raises bare Exception for every fault of a file
        raise TokenizerError(
            f"the tokenizer.json can not be loaded: {error}; export it again with a current "
            "version of tokenizers"
        ) from error
    return _matching_nothing(reference)


def _matching_nothing(reference: ReferenceTokenizer) -> ReferenceTokenizer:
    reference.no_truncation()
    reference.no_padding()
    reference.encode_special_tokens = True
    return reference


def _with_added(
    given: ReferenceTokenizer, added: Sequence[Mapping[str, Any]]
) -> ReferenceTokenizer | None:
    """Another tokenizer on the same vocabulary, which is shared; None if it has other ids.

    The library reads a large vocabulary in half a second.
    """
    made = ReferenceTokenizer(given.model)
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        if (found := getattr(given, part)) is not None:
            setattr(made, part, found)
    made.add_tokens([AddedToken(**{k: t[k] for k in _ADDED if k in t}) for t in added])
    numbers = {number: token.content for number, token in made.get_added_tokens_decoder().items()}
    same = numbers == {token["id"]: token["content"] for token in added}
    return _matching_nothing(made) if same else None


_version = functools.cache(importlib.metadata.version)  # slow to read


class ReferenceEncoder:
    """``tokenizers``: exact by definition, about 1 MB/s per core; it has threads of its own."""

    name, threads = "tokenizers", 1

    def __init__(self, tokenizer_json: bytes, opened: ReferenceTokenizer | None = None) -> None:
        self.version = _version("tokenizers")
        self.tokenizer_json = tokenizer_json
        self.tokenizer = opened or open_reference(tokenizer_json)

    def with_added(
        self, tokenizer_json: bytes, added: Sequence[Mapping[str, Any]]
    ) -> "ReferenceEncoder":
        """The encoder of the same file with these added tokens, as ``tokenizer_json`` has them."""
        return ReferenceEncoder(tokenizer_json, _with_added(self.tokenizer, added))

    def encode(self, texts: Sequence[bytes]) -> Encoded:
        """Ids of the texts, in order; ``TextRefused`` if the library raises on one of them."""
        strings = [text.decode("utf-8") for text in texts]
        try:
            found = self.tokenizer.encode_batch_fast(strings, add_special_tokens=False)
        except BaseException as error:  # bare Exception, or a panic, which is no Exception
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            words = " ".join(str(error).split())
            raise TextRefused(f"tokenizers {self.version} raises on a text: {words}") from error
        parts = [encoding.ids for encoding in found]
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        flat = [token for part in parts for token in part]
        return checked(Encoded(np.array(flat, np.uint32), offsets), len(texts))

    def matched(self, text: str) -> list[int]:
        """Ids of a text as ``transformers`` gives them: special tokens in it are matched."""
        self.tokenizer.encode_special_tokens = False
        try:
            return list(self.tokenizer.encode(text, add_special_tokens=False).ids)
        finally:
            self.tokenizer.encode_special_tokens = True

    def drop_cache(self) -> None:
        """Do nothing: the library's cache of words is small."""


def checked(encoded: Encoded, texts: int) -> Encoded:
    """``encoded`` itself; ``EncoderMismatch`` unless it has one encoding for each text."""
    ids, offsets = encoded
    whole = len(offsets) == texts + 1 and offsets[0] == 0 and offsets[-1] == len(ids)
    if not whole or (np.diff(offsets) < 0).any():
        raise EncoderMismatch(
            f"the encoder returned {len(offsets) - 1} encodings for {texts} texts, or offsets "
            "that do not fit its ids; run again with --encoder tokenizers"
        )
    return encoded
