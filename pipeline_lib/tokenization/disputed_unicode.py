"""Characters on which tokenizer libraries disagree, because their Unicode versions differ.

A pre-tokenizer asks whether a character is a letter, a digit or a mark; a normalizer asks which
characters are composed, and in which order marks stand. A library does not know the characters of
later Unicode versions: of words, tokenizers 0.23 has the tables of Unicode 16 and gigatoken 0.10
those of Unicode 17; of NFC, tokenizers has those of Unicode 9. A test of all code points finds
these characters and no others.
"""

import re
from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]

DISPUTED: Ranges = (
    (0x088F, 0x088F), (0x0C5C, 0x0C5C), (0x0CDC, 0x0CDC), (0x1ACF, 0x1ADD), (0x1AE0, 0x1AEB),
    (0xA7CE, 0xA7CF), (0xA7D2, 0xA7D2), (0xA7D4, 0xA7D4), (0xA7F1, 0xA7F1), (0x10940, 0x10959),
    (0x10EC5, 0x10EC7), (0x10EFA, 0x10EFB), (0x11B60, 0x11B67), (0x11DB0, 0x11DDB),
    (0x11DE0, 0x11DE9), (0x16EA0, 0x16EB8), (0x16EBB, 0x16ED3), (0x16FF2, 0x16FF6),
    (0x187F8, 0x187FF), (0x18D09, 0x18D1E), (0x18D80, 0x18DF2), (0x1E6C0, 0x1E6FF),
    (0x2B73A, 0x2B73F), (0x2CEA2, 0x2CEAD), (0x323B0, 0x33479),
)  # fmt: skip
"""Ranges (first and last code point) of letters, digits and marks that Unicode 17 added."""

_MARKS: Ranges = (
    (0x07FD, 0x07FD), (0x0897, 0x089F), (0x08CA, 0x08D3), (0x09FE, 0x09FE), (0x0C3C, 0x0C3C),
    (0x0D3B, 0x0D3C), (0x0EBA, 0x0EBA), (0x1715, 0x1715), (0x1ABF, 0x1ADD), (0x1AE0, 0x1AEB),
    (0x1DF6, 0x1DFA), (0xA82C, 0xA82C), (0x10D24, 0x10D27), (0x10D69, 0x10D6D),
    (0x10EAB, 0x10EAC), (0x10EFA, 0x10EFF), (0x10F46, 0x10F50), (0x10F82, 0x10F85),
    (0x11070, 0x11070), (0x1133B, 0x1133B), (0x113CE, 0x113D0), (0x1145E, 0x1145E),
    (0x11839, 0x1183A), (0x1193D, 0x1193E), (0x11943, 0x11943), (0x119E0, 0x119E0),
    (0x11A34, 0x11A34), (0x11A47, 0x11A47), (0x11A99, 0x11A99), (0x11D42, 0x11D42),
    (0x11D44, 0x11D45), (0x11D97, 0x11D97), (0x11F41, 0x11F42), (0x1612F, 0x1612F),
    (0x16FF0, 0x16FF1), (0x1E08F, 0x1E08F), (0x1E130, 0x1E136), (0x1E2AE, 0x1E2AE),
    (0x1E2EC, 0x1E2EF), (0x1E4EC, 0x1E4EF), (0x1E5EE, 0x1E5EF), (0x1E6E3, 0x1E6E3),
    (0x1E6E6, 0x1E6E6), (0x1E6EE, 0x1E6EF), (0x1E6F5, 0x1E6F5),
)  # fmt: skip
_COMPOSED: Ranges = (
    (0x105D2, 0x105D2), (0x105DA, 0x105DA), (0x11382, 0x11382), (0x11384, 0x11384),
    (0x1138B, 0x1138B), (0x11390, 0x11390), (0x113B8, 0x113B8), (0x113BB, 0x113BB),
    (0x113C2, 0x113C2), (0x113C5, 0x113C5), (0x113C7, 0x113C9), (0x11930, 0x11930),
    (0x11935, 0x11935), (0x1611E, 0x1612F), (0x16D63, 0x16D63), (0x16D67, 0x16D69),
)  # fmt: skip
_ASCII_TWINS: Ranges = ((0x037E, 0x037E), (0x1FEF, 0x1FEF), (0x212A, 0x212A))
DISPUTED_IN_NFC: Ranges = (*DISPUTED, *_MARKS, *_COMPOSED, *_ASCII_TWINS)
"""The ranges above, and what the libraries put into NFC differently: marks of other classes, parts
of newer composed characters, and characters that become ASCII, which may then spell an added
token."""


class DisputedCharacters:
    """Finds texts with a character of some ranges.

    For nearly every text a search for a few single bytes is enough, at gigabytes per second.
    """

    def __init__(self, ranges: Ranges) -> None:
        self._character = re.compile("[" + "".join(f"{chr(a)}-{chr(b)}" for a, b in ranges) + "]")
        beginnings = sorted({chr(point).encode()[:2] for point in _points(ranges)})
        self._beginning = re.compile(b"|".join(map(re.escape, beginnings)))
        self._leads = sorted({beginning[0] for beginning in beginnings})

    def are_in(self, text: bytes) -> bool:
        """Whether a UTF-8 text has such a character."""
        if text.isascii() or not any(lead in text for lead in self._leads):
            return False
        if self._beginning.search(text) is None:
            return False
        return self._character.search(text.decode()) is not None


def _points(ranges: Ranges) -> Iterable[int]:
    return (point for first, last in ranges for point in range(first, last + 1))


_IN_WORDS = DisputedCharacters(DISPUTED)
is_disputed = _IN_WORDS.are_in
"""Whether a UTF-8 text has a character of ``DISPUTED``."""
