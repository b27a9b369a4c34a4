"""The files of a tokenizer: ``tokenizer.json`` and what lies beside it, in a folder or on the Hub.

Of a Hub repository only these small files are fetched, never weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline_lib.errors import HubError, TokenizerError
from pipeline_lib.hub import client
from pipeline_lib.records import LOCAL
from pipeline_lib.tokenization.chat_files import FOLDER, NAMES, is_chat_file

_FILE = "tokenizer.json"
_OTHER_FORMS = {
    "tokenizer.model": "a SentencePiece model",
    "tekken.json": "a tokenizer of mistral-common",
    "tiktoken.model": "a tiktoken vocabulary",
    "vocab.json": "the vocabulary of a slow BPE tokenizer",
    "vocab.txt": "the vocabulary of a slow WordPiece tokenizer",
}
"""Files of tokenizers that ``transformers`` can convert, and what they are."""


@dataclass(frozen=True)
class TokenizerFiles:
    """``data``: the content of ``tokenizer.json``. ``beside``: path -> content of the files that
    say more. ``where``: the place, for errors. ``repository`` and ``revision``: of the Hub, with
    the commit; ``"local"`` and nothing for a file."""

    data: bytes = field(repr=False)
    beside: Mapping[str, bytes] = field(repr=False)
    where: str
    repository: str
    revision: str


def local_files(path: Path) -> TokenizerFiles:
    """The files of a folder, or of a file and its neighbours; ``TokenizerError`` for others."""
    file = path / _FILE if path.is_dir() else path
    folder = file.parent
    if not file.is_file() or file.name in _OTHER_FORMS:
        names = [entry.name for entry in folder.iterdir()]
        raise TokenizerError(
            f"{path} has no {_FILE}, so it is no fast tokenizer{_instead(names, folder)}; give a "
            "folder or file that is one"
        )
    paths = [*(folder / name for name in NAMES), *(folder / FOLDER).glob("*.jinja")]
    there = {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}
    beside = {name: _read(path) for name, path in there.items()}
    return TokenizerFiles(_read(file), beside, str(file), LOCAL, "")


def hub_files(repository: str, revision: str | None) -> TokenizerFiles:
    """The files of a Hub repository at the commit of a revision (None: its main branch).

    ``TokenizerError`` if the name is none of a repository, or it has no ``tokenizer.json``;
    ``HubError`` if it can not be read.
    """
    if repository.count("/") > 1 or repository.startswith((".", "/", "~")):
        raise TokenizerError(
            f"{repository} is neither an existing folder or file nor a Hub repository "
            "(owner/name); check the path"
        )
    try:
        listing = client.resolve_revision(repository, revision, kind="model")
    except HubError as error:
        here = Path(repository).absolute()
        raise type(error)(f"{error} (and there is no local {here})") from error
    names = [file.path for file in listing.files]
    where = f"{repository} at {listing.commit}"
    if _FILE not in names:
        raise TokenizerError(
            f"{where} has no {_FILE}, so it is a slow tokenizer{_instead(names, repository)}; "
            "convert it with transformers (use_fast=True, save_pretrained) or choose another"
        )
    beside = {name: client.fetch_file(listing, name) for name in names if is_chat_file(name)}
    data = client.fetch_file(listing, _FILE).read_bytes()
    contents = {name: path.read_bytes() for name, path in beside.items()}
    return TokenizerFiles(data, contents, where, repository, listing.commit)


def _instead(names: Sequence[str], place: object) -> str:
    """What a place has that is no ``tokenizer.json``, and how to make one of it."""
    there = {name: what for name, what in _OTHER_FORMS.items() if name in names}
    if "adapter_config.json" in names and not there:
        return " (it has an adapter: name the model in its base_model_name_or_path)"
    if any(name.endswith(".gguf") for name in names) and not there:
        return " (it has GGUF files: name the repository that they were made from)"
    if not there:
        return ""
    listed = ", ".join(f"{name}, {what}" for name, what in there.items())
    call = f"transformers.AutoTokenizer.from_pretrained({str(place)!r}).save_pretrained('folder')"
    return f" (it has {listed}: {call} makes a folder that can be read)"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TokenizerError(
            f"{path} can not be read ({error.strerror}); check who may read it"
        ) from error
