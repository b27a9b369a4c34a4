"""What was asked of the hub and what it sent."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Entry:
    """One request. ``status`` 0 means that the connection was reset without an answer.

    ``path`` is raw (percent-encoded, with its query); ``sent`` counts body bytes.
    """

    method: str
    path: str
    range: str | None
    authorized: bool
    agent: str
    status: int = 0
    sent: int = 0

    def __str__(self) -> str:
        asked = f" {self.range}" if self.range else ""
        return f"{self.method} {self.path}{asked} -> {self.status} ({self.sent} bytes)"


class Journal:
    """Requests in the order in which they were answered.

    An entry is complete before the first byte of its answer leaves, so a test may read it as
    soon as its client returns; only ``sent`` shrinks later, where the client hung up early.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def __iter__(self) -> Iterator[Entry]:
        with self._lock:
            return iter(list(self._entries))

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    def __getitem__(self, place: int) -> Entry:
        with self._lock:
            return self._entries[place]

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def matching(self, part: str = "", method: str | None = None) -> list[Entry]:
        """Entries whose path holds ``part`` and whose method is ``method`` (any if None)."""
        return [e for e in self if part in e.path and method in (None, e.method)]

    def bytes_sent(self, part: str = "") -> int:
        """Body bytes sent for paths that hold ``part`` (``"/cdn/"``: large files)."""
        return sum(entry.sent for entry in self.matching(part))
