"""Which texts are control tokens of a model."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class ControlTokens:
    """The control tokens of a tokenizer under one template, matched longest first."""

    texts: frozenset[str]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches one control token; nothing, if there are none."""
        longest_first = sorted(self.texts, key=lambda text: (-len(text), text))
        return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def control_tokens(added: Iterable[tuple[str, bool]], source: str) -> ControlTokens:
    """The control tokens of a model.

    ``added``: text and ``special`` of each added token of the tokenizer. Special ones count, and
    those others, white space apart, that the template's ``source`` writes: many families have
    ``<think>`` or even the marks of a turn as ordinary added tokens.
    """
    return ControlTokens(
        frozenset(text for text, special in added if text.strip() and (special or text in source))
    )
