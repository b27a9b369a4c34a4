"""The header of a dataset card: the YAML between the first two ``---`` lines of README.md."""

import re
from collections.abc import Mapping
from typing import Any

from pipeline_lib.errors import HubError

Card = Mapping[str, Any]  # YAML that the owner of a data set wrote, of any shape


def card_of(text: str, where: str, remedy: str) -> Card:
    """The header as a mapping, empty if there is none; ``HubError`` with ``remedy`` if it is not
    YAML."""
    header = re.match(r"\s*---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(\r?\n|\Z)", text, re.DOTALL)
    if not header:
        return {}
    import yaml  # slow to import, and most folders need none

    try:
        found = yaml.safe_load(header.group(1))
    except yaml.YAMLError as error:
        raise HubError(f"the card of {where} is not valid YAML; {remedy}") from error
    return found if isinstance(found, Mapping) else {}
