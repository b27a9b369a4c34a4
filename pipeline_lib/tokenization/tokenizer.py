"""Tokenizers: load one, pin it, and reduce it to the settings that decide ids.

The identity of a tokenizer is the SHA-256 of its normalised ``tokenizer.json``: saved truncation
and padding are switched off (they would cut every document), so is chance (BPE dropout, sampling:
one text would have several encodings, and the log says so), the post-processor is removed, and the
end token is special, so that its text inside a document stays text.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipeline_lib import digest
from pipeline_lib.errors import TokenizerError
from pipeline_lib.records import TokenizerMetadata
from pipeline_lib.tokenization import equality, fast
from pipeline_lib.tokenization.chat_files import ChatFiles, chat_files, end_token
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.file_contents import parsed_json
from pipeline_lib.tokenization.loss import Losses, is_lost, losses
from pipeline_lib.tokenization.reference import Encoder, ReferenceEncoder
from pipeline_lib.tokenization.tokenizer_files import TokenizerFiles, hub_files, local_files
from pipeline_lib.tokenization.tokenizer_json import (
    Fields,
    chance,
    check_numbers,
    id_bound,
    is_tokenizer,
    normalised,
    special_tokens,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tokenizer:
    """A pinned tokenizer.

    ``json``: the normalised file, UTF-8. ``sha256``: its hex digest. ``eos_token`` / ``eos_id``:
    the token that ends a document. ``vocab_bound``: largest id + 1, with added tokens and unused
    ids. ``repository`` / ``revision``: Hub repository and commit; ``"local"`` and ``sha256:...``
    for a file. ``reference``: the encoder that defines the ids. ``switched_off``: what the file
    leaves to chance, which is not used. ``losses``: what may be lost of a text. ``chat``: what its
    files say of chat; no part of its identity.
    """

    json: bytes
    sha256: str
    eos_token: str
    eos_id: int
    vocab_bound: int
    repository: str
    revision: str
    reference: ReferenceEncoder = field(repr=False, compare=False)
    switched_off: tuple[str, ...] = ()
    losses: Losses = field(default=Losses(), repr=False)
    chat: ChatFiles = field(default=ChatFiles(), repr=False, hash=False)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Smallest little-endian dtype for all ids: ``<u2`` up to 65,536 ids, else ``<u4``."""
        return np.dtype("<u2" if self.vocab_bound <= 1 << 16 else "<u4")

    def token_id(self, token: str) -> int:
        """Id of a token by its exact text; ``TokenizerError`` if there is none."""
        found = self.reference.tokenizer.token_to_id(token)
        if found is None:
            raise TokenizerError(
                f"the tokenizer has no token {token!r}; add it, or use a tokenizer that has it"
            )
        return int(found)

    def encoder(self, kind: str = "auto", renew_bytes: int = fast.RENEW_BYTES) -> Encoder:
        """An encoder: "auto", "gigatoken" or "tokenizers" (see ``choose_encoder``)."""
        return equality.choose_encoder(self.reference, kind, renew_bytes)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, control tokens included."""
        return str(
            self.reference.tokenizer.decode([int(i) for i in ids], skip_special_tokens=False)
        )

    def loses(self, text: bytes, ids: Sequence[int]) -> bool:
        """Whether some of a UTF-8 text is not there when its ids are decoded (see ``loss``)."""
        return is_lost(self.losses, self.reference.tokenizer, text, ids)

    def metadata(self) -> TokenizerMetadata:
        """The fields that checkpoints and manifests record."""
        found = TokenizerMetadata(
            repository=self.repository,
            revision=self.revision,
            sha256=self.sha256,
            vocab_size=self.vocab_bound,
            eos_token=self.eos_token,
            eos_id=self.eos_id,
            use_fast=True,
            add_special_tokens=False,
            append_eos=True,
        )
        if self.losses.unspelled:
            found["unspelled_bytes"] = list(self.losses.unspelled)
        if self.switched_off:
            found["switched_off"] = list(self.switched_off)
        return found


def load_tokenizer(
    where: str | Path, *, revision: str | None = None, eos_token: str | None = None
) -> Tokenizer:
    """Load a tokenizer from a folder, a ``tokenizer.json`` file or a Hub repository.

    An existing path wins over a repository of the same name. ``revision``: commit, branch or tag
    of a repository, or ``sha256:...`` of a local file. The end token is ``eos_token`` if given,
    else that of ``tokenizer_config.json``, else ``<|endoftext|>`` if it is special, else that of
    ``special_tokens_map.json``. ``TokenizerError`` for a slow tokenizer (no ``tokenizer.json``),
    one without end token, damaged files, and a local file with another digest; ``ValueError`` for a
    branch of a local file; ``HubError`` if a repository can not be read.
    """
    path = Path(where)
    if not path.exists():
        return _build(hub_files(str(where), revision), eos_token)
    files = local_files(path)
    tokenizer = _build(files, eos_token)
    _check_pin(tokenizer, revision, files.where)
    return tokenizer


def _check_pin(tokenizer: Tokenizer, revision: str | None, where: str) -> None:
    """A local tokenizer is pinned by its digest alone."""
    if revision is not None and not revision.startswith("sha256:"):
        raise ValueError(
            f"tokenizer_revision is {revision!r}, but a local tokenizer has no branches; "
            "leave --tokenizer-revision out"
        )
    if revision not in (None, tokenizer.revision):
        raise TokenizerError(
            f"{where} is {tokenizer.revision}, but {revision} was asked for; restore that file or "
            "leave the revision out"
        )


def _build(files: TokenizerFiles, asked: str | None) -> Tokenizer:
    fields = parsed_json(files.data, "tokenizer.json", files.where)
    if not is_tokenizer(fields):
        raise TokenizerError(
            f"the JSON of {files.where} does not describe a tokenizer; give a tokenizer.json as "
            "the tokenizers library writes it"
        )
    chat = chat_files(files.beside, files.where)
    named = end_token(files.beside, files.where)
    eos_token = _eos_token(fields, asked or named, chat.eos_token)
    text = normalised(fields, eos_token)
    reference = ReferenceEncoder(text)
    check_numbers(fields, reference)
    eos_id = reference.tokenizer.token_to_id(eos_token)
    if eos_id is None:
        raise TokenizerError(
            f"the end token {eos_token!r} is not in the vocabulary; {_choices(fields)}"
        )
    sha256 = digest.sha256_bytes(text)
    return Tokenizer(
        json=text,
        sha256=sha256,
        eos_token=eos_token,
        eos_id=eos_id,
        vocab_bound=id_bound(fields, reference),
        repository=files.repository,
        revision=files.revision or f"sha256:{sha256}",
        reference=reference,
        switched_off=_said_chance(fields),
        losses=_said_losses(fields, reference),
        chat=chat,
    )


def _said_chance(fields: Fields) -> tuple[str, ...]:
    found = tuple(f"model.{name} {value}" for name, value in chance(fields).items())
    if found:
        _LOG.warning("the tokenizer leaves encodings to chance; switched off: %s", ", ".join(found))
    return found


def _said_losses(fields: Fields, reference: ReferenceEncoder) -> Losses:
    lost = losses(fields, reference.tokenizer)
    if lost.unspelled:
        shown = ", ".join(f"0x{byte:02X}" for byte in lost.unspelled[:8])
        more = f" and {len(lost.unspelled) - 8} more" * (len(lost.unspelled) > 8)
        _LOG.warning("the vocabulary has no token for the bytes %s%s: text loses them", shown, more)
    return lost


def _eos_token(fields: Fields, chosen: str | None, of_chat: str | None) -> str:
    # The user's choice comes before the file: chat tokenizers name <|im_end|> there, which does
    # not separate documents. The older file of special tokens comes last.
    default = CONTROL_TOKENS[0]
    found = chosen or (default if default in special_tokens(fields) else of_chat)
    if found:
        return found
    raise TokenizerError(
        f"the tokenizer names no end token and {default!r} is not one of its special tokens; "
        f"{_choices(fields)}"
    )


def _choices(fields: Fields) -> str:
    names = ", ".join(special_tokens(fields)) or "none"
    return f"its special tokens: {names}; choose the one that ends a document with --eos-token"
