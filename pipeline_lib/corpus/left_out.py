"""The books of a lane on text without ids and on lost text: counted, the first ones named."""

import logging
from collections.abc import Sequence

from pipeline_lib.corpus.places import place_of
from pipeline_lib.corpus.rejects import REASONS, EncodedBatch, Rejected
from pipeline_lib.corpus.state import FirstRejected, LaneState, LossCounts
from pipeline_lib.records import Cursor
from pipeline_lib.sources.corpus_source import CorpusSource

_SHOWN = 80
_LOG = logging.getLogger(__name__)


class LeftOut:
    """Counts of documents without ids, by reason, the first of each, and counts of lost text."""

    def __init__(self, source: CorpusSource, files: Sequence[str], column: str) -> None:
        self._source, self._files, self._column = source, files, column
        self.counts = dict.fromkeys(REASONS, 0)
        self.first: list[FirstRejected] = []
        self.losses = LossCounts(unknown_tokens=0, compared=0, lost=0)

    def restore(self, last: LaneState) -> None:
        """Go on from a commit."""
        self.counts |= last.rejected
        self.first, self.losses = list(last.first_rejected), LossCounts(**last.losses)

    def add(self, found: EncodedBatch, unknown: int) -> None:
        """Count a batch, of which ``unknown`` unknown tokens were written."""
        named = {first["reason"] for first in self.first}
        for one in found.rejected:
            self.counts[one.reason] += 1
            if one.reason not in named:
                named.add(one.reason)
                self.first.append(self._named(one, found.batch.shuffle.cursor))
        if found.lost and not self.losses["lost"]:
            _LOG.warning(
                "the tokenizer loses text: %d of %d documents that were decoded again lack some of "
                "theirs; the manifest counts them all",
                found.lost, found.compared,
            )  # fmt: skip
        before = self.losses
        self.losses = LossCounts(
            unknown_tokens=before["unknown_tokens"] + unknown,
            compared=before["compared"] + found.compared,
            lost=before["lost"] + found.lost,
        )

    def _named(self, one: Rejected, cursor: Cursor) -> FirstRejected:
        place = place_of(self._source, self._files, self._column, one.text, cursor)
        file, row = place if place is not None else (None, None)
        words = one.words or repr(one.text[:_SHOWN].decode("utf-8", "ignore"))
        where = f"row {row:,} of {file}" if row is not None else "a row that was not found in time"
        _LOG.warning(
            "documents %s are left out and counted; the first is %s (visited row %s): %s",
            one.reason, where, f"{one.row:,}", words,
        )  # fmt: skip
        return FirstRejected(
            reason=one.reason, file=file, row=row, visited_row=one.row, words=words
        )
