"""What the files of a tokenizer say of chat: its templates, and the tokens that templates write.

The files are those that the tokenizers of ``transformers`` read, and of two the same one wins:
templates in files of their own replace all that ``tokenizer_config.json`` has; the older
``special_tokens_map.json`` outranks that file unless it lists its added tokens. The files of
processors, which ``transformers`` reads for models that also see or hear, are used where nothing
else has a template.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypedDict

from pipeline_lib.errors import DamagedFile, TokenizerError
from pipeline_lib.storage.typed_json import as_typed
from pipeline_lib.tokenization.file_contents import parsed_json, plain_text

CONFIG = "tokenizer_config.json"
_TOKEN_MAP = "special_tokens_map.json"
_TEMPLATE = "chat_template.jinja"
FOLDER = "additional_chat_templates"
_PROCESSOR = ("chat_template.json", "processor_config.json")
NAMES = (CONFIG, _TOKEN_MAP, _TEMPLATE, *_PROCESSOR)
DEFAULT = "default"
"""The name of a template that is the only one."""


@dataclass(frozen=True)
class ChatFiles:
    """What the files of a tokenizer say of chat; empty where they say nothing.

    ``templates``: name -> Jinja text; a single one is named ``"default"``. ``bos_token``,
    ``eos_token``, ``pad_token``: the texts that ``transformers`` gives to a template. A default
    that only a class of ``transformers`` knows is not among them.
    """

    templates: Mapping[str, str] = field(default_factory=dict)
    bos_token: str | None = None
    eos_token: str | None = None
    pad_token: str | None = None


class _AddedToken(TypedDict):
    content: str


class _NamedTemplate(TypedDict):
    name: str
    template: str


_Token = str | _AddedToken | None


class _Settings(TypedDict, total=False):
    chat_template: str | list[_NamedTemplate] | dict[str, str] | None
    bos_token: _Token
    eos_token: _Token
    pad_token: _Token
    added_tokens_decoder: Any  # only whether it is there


def is_chat_file(path: str) -> bool:
    """Whether a file, by its path beside ``tokenizer.json``, may say something of chat."""
    folder, _, name = path.rpartition("/")
    return path in NAMES or (folder == FOLDER and fnmatchcase(name, "*.jinja"))


def chat_files(files: Mapping[str, bytes], where: str) -> ChatFiles:
    """What files say of chat; ``files``: path beside ``tokenizer.json`` -> content.

    ``TokenizerError`` for damaged JSON, and for a template or a token that is not text; ``where``
    names the tokenizer there.
    """
    config = _settings(files, CONFIG, where)
    tokens: _Settings = config
    if "added_tokens_decoder" not in config:
        tokens = {**config, **_settings(files, _TOKEN_MAP, where)}
    return ChatFiles(
        _templates(files, config, where),
        _text(tokens.get("bos_token")),
        _text(tokens.get("eos_token")),
        _text(tokens.get("pad_token")),
    )


def end_token(files: Mapping[str, bytes], where: str) -> str | None:
    """The end token that ``tokenizer_config.json`` names; ``TokenizerError`` as ``chat_files``."""
    return _text(_settings(files, CONFIG, where).get("eos_token"))


def _templates(files: Mapping[str, bytes], config: _Settings, where: str) -> dict[str, str]:
    found = {DEFAULT: plain_text(files[_TEMPLATE], _TEMPLATE, where)} if _TEMPLATE in files else {}
    for path in sorted(name for name in files if name.startswith(f"{FOLDER}/")):
        name = path.removeprefix(f"{FOLDER}/").removesuffix(".jinja")
        found[name] = plain_text(files[path], path, where)
    found = found or _named(config.get("chat_template"))
    for name in _PROCESSOR:
        found = found or _named(_settings(files, name, where).get("chat_template"))
    return found


def _named(value: str | list[_NamedTemplate] | dict[str, str] | None) -> dict[str, str]:
    if isinstance(value, list):
        return {one["name"]: one["template"] for one in value}
    return value if isinstance(value, dict) else {} if value is None else {DEFAULT: value}


def _text(token: _Token) -> str | None:
    return token["content"] if isinstance(token, dict) else token


def _settings(files: Mapping[str, bytes], name: str, where: str) -> _Settings:
    if name not in files:
        return {}
    try:
        return as_typed(parsed_json(files[name], name, where), _Settings, f"{name} of {where}")
    except DamagedFile as error:
        raise TokenizerError(
            f"{error}; a template is text, or a list of names and texts, and a token is text or "
            "has its text in content: correct the file"
        ) from error
