"""The characters that stand for the 256 bytes in a byte-level vocabulary."""

import re
from collections.abc import Container, Sequence

_NEVER_IN_UTF8 = {0xC0, 0xC1, *range(0xF5, 0x100)}


def _byte_symbols() -> str:
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return "".join(chr(byte if byte in shown else next(others)) for byte in range(256))


BYTE_SYMBOLS = _byte_symbols()
"""The symbol of each byte, by the number of the byte."""
_BYTE_OF = {symbol: byte for byte, symbol in enumerate(BYTE_SYMBOLS)}
_SYMBOLS = f"[{re.escape(BYTE_SYMBOLS)}]*"
_are_symbols, _are_pair = (re.compile(p).fullmatch for p in (_SYMBOLS, f"{_SYMBOLS} {_SYMBOLS}"))


def symbols(token: bytes) -> str:
    """How a byte-level vocabulary spells these bytes."""
    return "".join(BYTE_SYMBOLS[byte] for byte in token)


def unspelled(names: Sequence[str], vocabulary: Container[str]) -> list[int]:
    """Bytes of UTF-8 whose name (``names`` has one for each byte) is not in a vocabulary."""
    there = (byte for byte in range(256) if byte not in _NEVER_IN_UTF8)
    return [byte for byte in there if names[byte] not in vocabulary]


def is_spelled(text: str) -> bool:
    """Whether a text consists of byte symbols only."""
    return _are_symbols(text) is not None


def is_spelled_pair(text: str) -> bool:
    """Whether a text consists of two texts of byte symbols with a space between them."""
    return _are_pair(text) is not None


def spelled_bytes(name: str) -> bytes:
    """The bytes that a vocabulary's name spells; of any other text its UTF-8."""
    if not is_spelled(name):
        return name.encode()
    return bytes(_BYTE_OF[symbol] for symbol in name)


def spelled_size(name: str) -> int:
    """The number of bytes that a vocabulary's name spells."""
    return len(name) if is_spelled(name) else len(name.encode())
