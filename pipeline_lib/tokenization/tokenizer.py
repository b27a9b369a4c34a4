"""Tokenizers: load one, pin it, and reduce it to the settings that decide ids.

The identity of a tokenizer is the SHA-256 of its normalised ``tokenizer.json``: saved truncation
and padding are switched off (they would cut every document), so is chance (BPE dropout, sampling:
one text would have several encodings, and the log says so), the post-processor is removed, and the
end token is special, so that its text inside a document stays text.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipeline_lib import digest
from pipeline_lib.errors import HubError, TokenizerError
from pipeline_lib.hub import client
from pipeline_lib.records import LOCAL, TokenizerMetadata
from pipeline_lib.tokenization import equality, fast
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.loss import Losses, is_lost, losses
from pipeline_lib.tokenization.reference import Encoder, ReferenceEncoder

_FILE, _CONFIG = "tokenizer.json", "tokenizer_config.json"
_CHANCE = ("dropout", "alpha", "nbest_size")
"""Fields of a model that make an encoding random."""
_LOG = logging.getLogger(__name__)

Fields = dict[str, Any]  # the form of the file is that of the tokenizers library


@dataclass(frozen=True)
class Tokenizer:
    """A pinned tokenizer.

    ``json``: the normalised file, UTF-8. ``sha256``: its hex digest. ``eos_token`` / ``eos_id``:
    the token that ends a document. ``vocab_bound``: largest id + 1, with added tokens and unused
    ids. ``repository`` / ``revision``: Hub repository and commit; ``"local"`` and ``sha256:...``
    for a file. ``reference``: the encoder that defines the ids. ``switched_off``: what the file
    leaves to chance, which is not used. ``losses``: what may be lost of a text.
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
    else that of ``tokenizer_config.json``, else ``<|endoftext|>`` if it is special.
    ``TokenizerError`` for a slow tokenizer (no ``tokenizer.json``), one without end token, and a
    local file with another digest; ``ValueError`` for a branch of a local file; ``HubError`` if a
    repository can not be read.
    """
    path = Path(where)
    if path.exists():
        return _load_local(path, revision, eos_token)
    if str(where).count("/") > 1 or str(where).startswith((".", "/", "~")):
        raise TokenizerError(
            f"{where} is neither an existing folder or file nor a Hub repository (owner/name); "
            "check the path"
        )
    try:
        listing = client.resolve_revision(str(where), revision, kind="model")
    except HubError as error:
        raise type(error)(f"{error} (and there is no local {path.absolute()})") from error
    names = {file.path for file in listing.files}
    if _FILE not in names:
        raise TokenizerError(
            f"{where} at {listing.commit} has no {_FILE}, so it is a slow tokenizer; convert it "
            "with transformers (use_fast=True, save_pretrained) or choose another"
        )
    config = client.fetch_file(listing, _CONFIG) if _CONFIG in names else None
    raw = client.fetch_file(listing, _FILE).read_bytes()
    return _build(raw, config, eos_token, str(where), listing.commit)


def _load_local(path: Path, revision: str | None, eos_token: str | None) -> Tokenizer:
    file = path / _FILE if path.is_dir() else path
    if not file.is_file():
        raise TokenizerError(
            f"{path} has no {_FILE}, so it is no fast tokenizer; give a folder or file that is one"
        )
    tokenizer = _build(file.read_bytes(), file.with_name(_CONFIG), eos_token, LOCAL, "")
    if revision is not None and not revision.startswith("sha256:"):
        raise ValueError(
            f"tokenizer_revision is {revision!r}, but a local tokenizer has no branches; "
            "leave --tokenizer-revision out"
        )
    if revision not in (None, tokenizer.revision):
        raise TokenizerError(
            f"{file} is {tokenizer.revision}, but {revision} was asked for; restore that file or "
            "leave the revision out"
        )
    return tokenizer


def _build(
    raw: bytes, config: Path | None, eos_token: str | None, repository: str, revision: str
) -> Tokenizer:
    try:
        fields = json.loads(raw)
        settings = json.loads(config.read_bytes()) if config and config.exists() else {}
    except (ValueError, RecursionError) as error:
        raise TokenizerError(
            f"the tokenizer of {repository} is not valid JSON: {error}; fetch it again"
        ) from error
    if not (isinstance(settings, dict) and _is_tokenizer(fields)):
        raise TokenizerError(
            f"the JSON of the tokenizer of {repository} does not describe a tokenizer; give a "
            "tokenizer.json as the tokenizers library writes it"
        )
    eos_token = _eos_token(fields, settings, eos_token)
    text = _normalised(fields, eos_token)
    reference = ReferenceEncoder(text)
    _check_numbers(fields, reference)
    eos_id = reference.tokenizer.token_to_id(eos_token)
    if eos_id is None:
        raise TokenizerError(
            f"the end token {eos_token!r} is not in the vocabulary; {_choices(fields)}"
        )
    bound = _largest_id(fields, reference) + 1
    if bound > 1 << 32:
        raise TokenizerError(
            f"the largest id is {bound - 1}; ids must fit 32 bits; choose another tokenizer"
        )
    sha256 = digest.sha256_bytes(text)
    revision = revision or f"sha256:{sha256}"
    chance = tuple(f"model.{name} {value}" for name, value in _chance(fields).items())
    if chance:
        _LOG.warning(
            "the tokenizer leaves encodings to chance; switched off: %s", ", ".join(chance)
        )
    lost = losses(fields, reference.tokenizer)
    if lost.unspelled:
        shown = ", ".join(f"0x{byte:02X}" for byte in lost.unspelled[:8])
        more = f" and {len(lost.unspelled) - 8} more" * (len(lost.unspelled) > 8)
        _LOG.warning("the vocabulary has no token for the bytes %s%s: text loses them", shown, more)
    return Tokenizer(
        text, sha256, eos_token, eos_id, bound, repository, revision, reference, chance, lost
    )


def _is_tokenizer(fields: Any) -> bool:
    added = fields.get("added_tokens") or [] if isinstance(fields, dict) else None
    return isinstance(added, list) and all(
        isinstance(token, dict) and {"id", "content"} <= token.keys() for token in added
    )


def _eos_token(fields: Fields, settings: Fields, asked: str | None) -> str:
    # The user's choice comes before the file: chat tokenizers name <|im_end|> there, which does
    # not separate documents.
    saved = settings.get("eos_token")
    saved = saved.get("content") if isinstance(saved, dict) else saved
    if asked or saved:
        return str(asked or saved)
    default = CONTROL_TOKENS[0]
    if default in _special(fields):
        return default
    raise TokenizerError(
        f"the tokenizer names no end token and {default!r} is not one of its special tokens; "
        f"{_choices(fields)}"
    )


def _special(fields: Fields) -> list[str]:
    added = fields.get("added_tokens") or []
    return [token["content"] for token in added if token.get("special")]


def _choices(fields: Fields) -> str:
    names = ", ".join(_special(fields)) or "none"
    return f"its special tokens: {names}; choose the one that ends a document with --eos-token"


def _normalised(fields: Fields, eos_token: str) -> bytes:
    added = [
        {**token, "special": True} if token["content"] == eos_token else token
        for token in fields.get("added_tokens") or []
    ]
    off: Fields = {"truncation": None, "padding": None, "post_processor": None}
    if chance := _chance(fields):
        off["model"] = {**fields["model"], **dict.fromkeys(chance)}
    return json.dumps({**fields, **off, "added_tokens": added}, ensure_ascii=False).encode()


def _chance(fields: Fields) -> Fields:
    """The fields of the model that make an encoding random, with their values."""
    model = fields.get("model")
    found = model if isinstance(model, dict) else {}
    return {name: found[name] for name in _CHANCE if found.get(name)}


def _largest_id(fields: Fields, reference: ReferenceEncoder) -> int:
    added = [int(token["id"]) for token in fields.get("added_tokens") or []]
    vocabulary = fields["model"].get("vocab")
    if isinstance(vocabulary, dict):
        return int(max([*vocabulary.values(), *added]))
    return max(reference.tokenizer.get_vocab(with_added_tokens=True).values())


def _check_numbers(fields: Fields, reference: ReferenceEncoder) -> None:
    for token in fields.get("added_tokens") or []:
        found = reference.tokenizer.token_to_id(token["content"])
        if found != token["id"]:
            raise TokenizerError(
                f"added token {token['content']!r} has id {token['id']} in the file but the "
                f"library numbers it {found}; export the tokenizer again with its own library"
            )
