"""Characters on which tokenizer libraries disagree, because their Unicode versions differ.

A pre-tokenizer asks whether a character is a letter, a digit or a mark. A library does not know the
characters of later Unicode versions: tokenizers 0.23 has the tables of Unicode 16, gigatoken 0.10
those of Unicode 17. A test of all code points found these characters and no others.
"""

import re

DISPUTED = (
    (0x088F, 0x088F), (0x0C5C, 0x0C5C), (0x0CDC, 0x0CDC), (0x1ACF, 0x1ADD), (0x1AE0, 0x1AEB),
    (0xA7CE, 0xA7CF), (0xA7D2, 0xA7D2), (0xA7D4, 0xA7D4), (0xA7F1, 0xA7F1), (0x10940, 0x10959),
    (0x10EC5, 0x10EC7), (0x10EFA, 0x10EFB), (0x11B60, 0x11B67), (0x11DB0, 0x11DDB),
    (0x11DE0, 0x11DE9), (0x16EA0, 0x16EB8), (0x16EBB, 0x16ED3), (0x16FF2, 0x16FF6),
    (0x187F8, 0x187FF), (0x18D09, 0x18D1E), (0x18D80, 0x18DF2), (0x1E6C0, 0x1E6FF),
    (0x2B73A, 0x2B73F), (0x2CEA2, 0x2CEAD), (0x323B0, 0x33479),
)  # fmt: skip
"""Ranges (first and last code point) of letters, digits and marks that Unicode 17 added."""

_CHARACTER = re.compile("[" + "".join(f"{chr(a)}-{chr(b)}" for a, b in DISPUTED) + "]")
_BEGINNINGS = {
    chr(point).encode()[:2] for span in DISPUTED for point in range(span[0], span[1] + 1)
}
_BEGINNING = re.compile(b"|".join(map(re.escape, sorted(_BEGINNINGS))))
_LEADS = sorted({beginning[0] for beginning in _BEGINNINGS})


def is_disputed(text: bytes) -> bool:
    """Whether a UTF-8 text has such a character.

    For nearly every text a search for four single bytes is enough, at gigabytes per second.
    """
    if text.isascii() or not any(lead in text for lead in _LEADS):
        return False
    return _BEGINNING.search(text) is not None and _CHARACTER.search(text.decode()) is not None
