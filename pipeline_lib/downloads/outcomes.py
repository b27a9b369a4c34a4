"""The outcome of the work on each data set: one that fails does not stop the others."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pipeline_lib.downloads.saved import Saved
from pipeline_lib.errors import ColumnError, DamagedFile, PipelineError
from pipeline_lib.hub.refusals import (
    Gated,
    Network,
    NoAccess,
    NotFound,
    RateLimited,
    RevisionNotFound,
)


class Status(StrEnum):
    """How the work on one data set ended."""

    DONE = "done"
    THERE = "already there"
    GATED = "gated, no token"
    NO_ACCESS = "token without access"
    NOT_FOUND = "not found"
    RATE_LIMITED = "rate limited"
    NETWORK = "no network"
    COLUMNS = "columns differ"
    DAMAGED = "damaged"
    FAILED = "failed"

    @property
    def good(self) -> bool:
        """Whether the data set can be used now."""
        return self in (Status.DONE, Status.THERE)


_STATUS_OF: tuple[tuple[type[Exception], Status], ...] = (
    (Gated, Status.GATED),
    (NoAccess, Status.NO_ACCESS),
    (NotFound, Status.NOT_FOUND),
    (RevisionNotFound, Status.NOT_FOUND),
    (RateLimited, Status.RATE_LIMITED),
    (Network, Status.NETWORK),
    (ColumnError, Status.COLUMNS),
    (DamagedFile, Status.DAMAGED),
)


@dataclass(frozen=True)
class Outcome:
    """The outcome for one data set: its status, and its rows and bytes (``size``) on disk.

    If the status is not good, ``detail`` names the fault and the remedy.
    """

    name: str
    status: Status
    rows: int = 0
    size: int = 0
    detail: str = ""

    def __str__(self) -> str:
        facts = f"{self.rows:,} rows, {self.size / 1e6:,.1f} MB" if self.rows else self.detail
        return f"{self.name:14} {self.status:20} {facts}"


def of_saved(name: str, status: Status, saved: Saved) -> Outcome:
    """The outcome for a data set that is on disk now."""
    return Outcome(name, status, saved.rows, saved.size)


def attempt(name: str, work: Callable[[], Outcome]) -> Outcome:
    """The outcome of the work on one data set; an error becomes its status and detail."""
    try:
        return work()
    except (PipelineError, OSError) as error:
        kinds = (status for kind, status in _STATUS_OF if isinstance(error, kind))
        return Outcome(name, next(kinds, Status.FAILED), detail=" ".join(str(error).split()))
