"""Files of a Hub repository, and the comparison of a local copy with the Hub's own hash.

The Hub lists SHA-256 for large files and the git blob id for small ones.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from pipeline_lib import digest

UNKNOWN = -1
"""Size of a file whose size the Hub does not list."""
_HEX40, _HEX64 = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class HubFile:
    """One file of a repository: its size in bytes and its ``sha256`` or ``blob_id`` in hex."""

    path: str
    size: int
    sha256: str | None = None
    blob_id: str | None = None

    def matches(self, copy: Path) -> bool:
        """Whether a local copy has the size and the hash of the file.

        If the Hub lists no hash, the name of the cached copy is used, because the Hub client names
        it by its entity tag, which is a hash.
        """
        if self.size not in (UNKNOWN, copy.stat().st_size):
            return False
        tag = copy.resolve().name
        sha256 = self.sha256 or (tag if not self.blob_id and is_sha256(tag) else None)
        if sha256:
            return digest.sha256_file(copy) == sha256
        blob_id = self.blob_id or (tag if is_commit(tag) else None)
        return blob_id is None or git_blob_id(copy) == blob_id

    @property
    def hash(self) -> str:
        """Kind and value of the hash that the Hub lists, for errors."""
        return f"SHA-256 {self.sha256}" if self.sha256 else f"git blob id {self.blob_id}"


def is_commit(text: str) -> bool:
    """Whether a text is a git object id: 40 hex digits."""
    return _HEX40.fullmatch(text) is not None


def is_sha256(text: str) -> bool:
    """Whether a text is a SHA-256: 64 hex digits."""
    return _HEX64.fullmatch(text) is not None


def git_blob_id(path: Path) -> str:
    """The id that git gives to the content of a file, in hex."""
    found = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
