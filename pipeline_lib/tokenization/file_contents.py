"""The content of a tokenizer's files as JSON or text; errors name the file and what to do."""

import json
from typing import Any

from pipeline_lib.errors import TokenizerError

_LFS = b"version https://git-lfs.github.com/spec/"


def parsed_json(data: bytes, name: str, where: str) -> Any:
    """The value of a JSON file; ``TokenizerError`` if it is damaged."""
    try:
        return json.loads(_stored(data, name, where))
    except (ValueError, RecursionError) as error:
        raise TokenizerError(
            f"{name} of {where} is not valid JSON: {error}; fetch it again"
        ) from error


def plain_text(data: bytes, name: str, where: str) -> str:
    """The text of a file, its newlines as when it is opened as text.

    ``TokenizerError`` if it is not UTF-8.
    """
    try:
        text = _stored(data, name, where).decode()
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"{name} of {where} is not UTF-8 text: {error}; fetch it again"
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _stored(data: bytes, name: str, where: str) -> bytes:
    """The content itself; git may hold the address of a large file in its place."""
    if data.startswith(_LFS):
        raise TokenizerError(
            f"{name} of {where} is not the file but its address in Git LFS; run git lfs pull there"
        )
    return data
