"""The state of a store while it grows. Pure: a new state is made, the old one stays as it is.

So an interrupt between any two instructions leaves a state that is true.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pipeline_lib import digest
from pipeline_lib.chat.conversation import Pair, Turns
from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.row_results import RowResult
from pipeline_lib.chat.store_format import conversation_bytes
from pipeline_lib.chat.store_record import SPLITS, ProbedRow, SourceReport, StoreDetails

PART_ROWS, PART_BYTES = 20_000, 16 << 20
_REASONS = 200

OpenPart = dict[str, list[Turns | Pair]]
"""Split -> its conversations that no finished part holds yet."""


@dataclass(frozen=True)
class StoreProgress:
    """What all rows so far gave.

    ``open``: the conversations of the open part. ``size``: their bytes. ``digests``, ``report``
    and ``probed``: as in ``StoreDetails``, with the open part.
    """

    open: OpenPart
    size: int
    digests: dict[str, str]
    report: SourceReport
    probed: tuple[ProbedRow, ...] = ()

    @property
    def done(self) -> int:
        """Number of rows so far."""
        return self.report.rows

    @property
    def full(self) -> bool:
        """Whether the open part is to end here; asked only where a block of rows ends."""
        return max(map(len, self.open.values())) >= PART_ROWS or self.size >= PART_BYTES

    def closed(self) -> "StoreProgress":
        """The same rows, all of them in finished parts."""
        return replace(self, open=_nothing(), size=0)

    def plus(
        self, results: Sequence[RowResult], probed: Sequence[ProbedRow] = ()
    ) -> "StoreProgress":
        """The state after more rows; ``probed``: those of them that the probe records."""
        rejects, notes = Counter(self.report.rejects), Counter(self.report.notes)
        chains = {split: digest.Chain(self.digests[split]) for split in SPLITS}
        opened: OpenPart = {split: [*self.open[split]] for split in SPLITS}
        for result in results:
            if isinstance(result.outcome, Reject):
                _count(rejects, result.outcome.reason)
            elif result.split is not None:
                notes.update(set(result.outcome.notes))
                chains[result.split].add(result.data)
                opened[result.split].append(result.outcome)
        report = replace(
            _counted(self.report, results),
            rejects=dict(rejects),
            notes=dict(notes),
        )
        size = self.size + sum(len(result.data) for result in results)
        digests = {str(split): chain.state for split, chain in chains.items()}
        return StoreProgress(opened, size, digests, report, (*self.probed, *probed))


def resumed(details: StoreDetails, tail: OpenPart) -> StoreProgress:
    """The state at a commit; ``tail``: the conversations of its open part."""
    opened = _nothing() | tail
    size = sum(len(conversation_bytes(c)) for kept in opened.values() for c in kept)
    return StoreProgress(opened, size, details.digests, details.report, details.probed)


def _nothing() -> OpenPart:
    return {split: [] for split in SPLITS}


def _count(rejects: Counter[str], reason: str) -> None:
    known = reason in rejects or len(rejects) < _REASONS
    rejects[reason if known else "other reasons"] += 1


def _counted(report: SourceReport, results: Iterable[RowResult]) -> SourceReport:
    """The report with the numbers of rows and the first traceback."""
    results = list(results)
    kept = Counter(result.split for result in results)
    first = next((result.traceback for result in results if result.traceback), "")
    return replace(
        report,
        rows=report.rows + len(results),
        train=report.train + kept["train"],
        val=report.val + kept["val"],
        first_traceback=report.first_traceback or first,
    )
