"""Texts on which two encoders may differ, made from a tokenizer's own parts.

A text is a few pieces: added tokens (whole, cut, doubled, in other words), tokens of the vocabulary
and of two of them, characters of every class and script, marks, white space, and contractions.
"""

import json
import random
import unicodedata
from collections.abc import Iterator

from pipeline_lib.tokenization.byte_symbols import spelled_bytes

_LETTERS = "aAbBeEéÉñßǅʰªωΩжЖאبकকతతไ语語가あアﾊ𐐷"
_DIGITS = "019²½Ⅷ٣३①𝟗"
_MARKS = (
    "\u0301\u0308\u0327\u0315\u0334\u0338\u0345\u093c\u0c3c\u064b\u08d3\u0653\u3099\u20dd\ufe0f"
)
_SINGLETONS = "\u212a\u212b\u037e\u1fef\u2126\u0340\u0958\u2adc\ufb1d"
_JAMO = "\u1100\u1161\u11a8"
_SPACES = [*" \n\r\t\x0b\x0c\x85\xa0\u2003\u2028\u3000\x1c\u200b", "  ", "    ", "\r\n", " \n"]
_OTHERS = "!\"'(-./<>?@_|~\x00\x7f\u00ad\u2019…—💥👩‍🇩\U000e0041\uffff\U0010ffff\ue000"
_ENDINGS = ["'s", "'S", "'ll", "'LL", "'ve", "'re", "'d", "'t", "'m", "\u2019s", "'ſ"]


class FuzzTexts:
    """Endless random texts for a tokenizer file; the same seed gives the same texts."""

    def __init__(self, tokenizer_json: bytes, seed: int) -> None:
        fields = json.loads(tokenizer_json)
        self._dice = random.Random(seed)
        self._added = [token["content"] for token in fields["added_tokens"]]
        vocabulary = fields["model"]["vocab"]
        names = list(vocabulary) if isinstance(vocabulary, dict) else [v[0] for v in vocabulary]
        found = {spelled_bytes(name).decode("utf-8", "ignore") for name in names}
        self._tokens = sorted(found - {""})

    def batches(self, count: int, size: int = 2_000) -> Iterator[list[bytes]]:
        """``count`` texts, at most ``size`` at a time."""
        for start in range(0, count, size):
            yield [self._text().encode() for _ in range(min(size, count - start))]

    def _text(self) -> str:
        return "".join(self._piece() for _ in range(self._dice.randrange(1, 9)))

    def _piece(self) -> str:
        dice = self._dice
        kind = dice.randrange(10)
        if kind < 2 and self._added:
            return self._near(dice.choice(self._added))
        if kind < 4:
            return "".join(dice.choice(self._tokens) for _ in range(dice.randrange(1, 4)))
        if kind == 4:
            return dice.choice(_ENDINGS)
        if kind == 5:
            return dice.choice(_SPACES) * dice.choice((1, 1, 1, 2, 3, 9))
        if kind == 6:
            return dice.choice(self._tokens) * dice.randrange(1, 12)
        if kind == 7:
            return dice.choice("ae<|>Kक語") + "".join(
                dice.choice(_MARKS + _SINGLETONS + _JAMO) for _ in range(dice.randrange(1, 4))
            )
        pool = dice.choice((_LETTERS, _DIGITS, _OTHERS, _LETTERS + _DIGITS, "abcdefgh xyz"))
        return "".join(dice.choice(pool) for _ in range(dice.randrange(1, 7)))

    def _near(self, token: str) -> str:
        """An added token: whole, cut, doubled, with something before or behind it."""
        dice = self._dice
        cut = dice.randrange(len(token) + 1)
        apart, over = unicodedata.normalize("NFD", token), self._joined(token)
        choices = (token, token * 2, token[:cut], token[cut:], token[:cut] + token, apart, over)
        around = ("", "", " ", "a", "_", "1", "\u0301", "\n", ".", "  ")
        return dice.choice(around) + dice.choice(choices) + dice.choice(around)

    def _joined(self, token: str) -> str:
        """The token and another added one, which share the characters where they meet."""
        other = self._dice.choice(self._added)
        ends = (n for n in range(min(len(token), len(other)), 0, -1) if token.endswith(other[:n]))
        return token + other[next(ends, 0) :]
