"""SHA-256 in the few forms that name things: bytes, files, JSON values, sequences.

SHA-256 alone is used everywhere: on processors with SHA instructions it runs at about
1 GB/s, which is far above what encoding needs.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20


def sha256_bytes(data: bytes | bytearray | memoryview) -> str:
    """Hex SHA-256 of the bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path, size: int | None = None) -> str:
    """Hex SHA-256 of a file, or of its first ``size`` bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        left = path.stat().st_size if size is None else size
        while left > 0 and (block := file.read(min(_BLOCK, left))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def canonical_json(value: Any) -> bytes:
    """One spelling for one JSON value: sorted keys, no spaces, ASCII, no NaN."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def of_json(value: Any) -> str:
    """Hex SHA-256 of the canonical JSON of ``value``."""
    return sha256_bytes(canonical_json(value))


class Chain:
    """A running digest of a sequence of byte strings whose whole state is 32 bytes.

    Each item is folded as ``d = sha256(d + u64le(length) + sha256(item))``, so ``["ab", "c"]``
    and ``["a", "bc"]`` differ, and the digest can be carried on from any point.
    """

    def __init__(self, state: str = "00" * 32) -> None:
        self._state = bytes.fromhex(state)

    def add(self, item: bytes) -> None:
        """Fold one item."""
        self.add_digest(len(item), hashlib.sha256(item).digest())

    def add_digest(self, length: int, item_digest: bytes) -> None:
        """Fold one item given by its length in bytes and its SHA-256."""
        folded = self._state + length.to_bytes(8, "little") + item_digest
        self._state = hashlib.sha256(folded).digest()

    def extend(self, items: Iterable[bytes]) -> None:
        """Fold the items in order."""
        for item in items:
            self.add(item)

    @property
    def state(self) -> str:
        """The digest so far, in hex; ``Chain(state)`` goes on from here."""
        return self._state.hex()
