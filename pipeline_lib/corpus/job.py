"""A run as its lanes get it, and the clock that says when a commit is due."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pipeline_lib.corpus.options import PrepareOptions
from pipeline_lib.corpus.pinned import Pinned
from pipeline_lib.signals import StopRequest


@dataclass(frozen=True)
class Job:
    """A run, as each of its lanes gets it. Only ``pinned.recipe`` decides the bytes."""

    pinned: Pinned
    staging: Path
    options: PrepareOptions = field(default_factory=PrepareOptions)
    stop: StopRequest = field(default_factory=StopRequest)


class CommitClock:
    """Says at the end of a batch whether a commit is due: by interval, or because of a signal.

    ``clock`` and ``interval`` are in seconds.
    """

    def __init__(self, clock: Callable[[], float], interval: float, stop: StopRequest) -> None:
        self._clock, self._interval, self._stop = clock, interval, stop
        self._last = clock()

    def __call__(self) -> bool:
        now = self._clock()
        if not self._stop.requested and now - self._last < self._interval:
            return False
        self._last = now
        return True
