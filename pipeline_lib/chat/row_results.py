"""What one row of a source gives: turns or a rejection, notes, and a side of the split."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from pipeline_lib import digest, selection
from pipeline_lib.chat.conversation import Pair, Result, Turns, check_result
from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.store_format import conversation_bytes, whole
from pipeline_lib.records import DataRow

Normalizer = Callable[[DataRow], Result]
"""A function from a row of a data set to turns, a pair or a rejection."""
Side = Callable[[Turns | Pair], selection.Split]
"""A function from a conversation to its side of the split."""
_SHOWN = 160


@dataclass(frozen=True)
class RowResult:
    """The whole result of one row.

    ``outcome``: a checked conversation or a rejection. ``split`` and ``data``: side and bytes of
    the conversation; a rejection has neither. ``traceback``: of an exception in the normalizer.
    """

    outcome: Turns | Pair | Reject
    split: selection.Split | None = None
    data: bytes = b""
    traceback: str = ""

    @property
    def digest(self) -> str:
        """Hex SHA-256 of all of it but the traceback, which has line numbers."""
        return digest.of_json([self.split, digest.sha256_bytes(self.data), *self._words])

    @property
    def shown(self) -> str:
        """The result in one short line."""
        if isinstance(self.outcome, Reject):
            return f"rejected, {self.outcome.reason}"
        text = " | ".join(f"{turn['role']}: {turn['content']}" for turn in whole(self.outcome))
        start = f"{text[:_SHOWN]}..." if len(text) > _SHOWN else text
        return f"{self.split}, {len(self.data):,} bytes, {self.digest[:12]}: {start!r}"

    @property
    def _words(self) -> list[str]:
        if isinstance(self.outcome, Reject):
            return ["rejected", self.outcome.reason]
        return ["kept", *sorted(set(self.outcome.notes))]


def result_of(row: DataRow, normalizer: Normalizer, side: Side) -> RowResult:
    """Normalise and check a row; an exception of the normalizer is a rejection."""
    error = ""
    try:
        outcome = check_result(normalizer(row), row)
    except Reject as reject:
        outcome = reject
    except Exception as raised:  # the user's code: one bad row must not stop a million others
        error = traceback.format_exc()[-4_000:]
        outcome = Reject(f"raised {type(raised).__name__}")
    if isinstance(outcome, Reject):
        return RowResult(outcome, traceback=error)
    return RowResult(outcome, side(outcome), conversation_bytes(outcome))
