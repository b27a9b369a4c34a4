"""How far a run is, for people: bars in a notebook or on a terminal, log lines elsewhere."""

import logging
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from pipeline_lib.records import LaneProgress

if TYPE_CHECKING:
    from tqdm.auto import tqdm

NOMINAL_TOKENS = 6_000_000_000
_LOG = logging.getLogger(__name__)


def report_progress(progress: LaneProgress) -> str:
    """One line: rows, documents, tokens, rate, time elapsed over all sessions, time left.

    Where a run has several lanes, the line is of one of them and names it. The time left is to the
    end of the lane: to its part of the bound, or to the end of its files if they hold less. Without
    a bound on tokens the line also has a nominal projection to six billion train tokens, which it
    labels so.
    """
    line = f"lane {progress.lane}: " if progress.lanes > 1 else ""
    line += (
        f"{progress.rows:,} rows, {progress.documents:,} documents, "
        f"{progress.train_tokens:,} train + {progress.val_tokens:,} val tokens, "
        f"{progress.rate:,.0f} tokens/s, {_duration(progress.elapsed_seconds)} elapsed"
    )
    if progress.share > 0:
        left = progress.elapsed_seconds * max(1 / progress.share - 1, 0)
        line += f", {_duration(left)} left"
    if progress.tokens_at_most is None and progress.rate > 0:
        nominal = (NOMINAL_TOKENS - progress.train_tokens) / progress.rate
        line += f" (nominal: {_duration(nominal)} to 6 billion train tokens)"
    return line


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {whole % 60:02d} s"


def _bar(*, total: int | None = None, desc: str | None = None, unit: str = "it") -> "tqdm[None]":
    from tqdm.auto import tqdm  # slow to import, and a log file needs none

    return tqdm(total=total, desc=desc, unit=unit, unit_scale=True)


class _LaneBars:
    """A bar of rows for each lane, whose end is where the lane will end as far as that is known."""

    def __init__(self) -> None:
        self._bars: dict[int, tqdm[None]] = {}

    def show(self, progress: LaneProgress) -> None:
        bar = self._bars.get(progress.lane)
        if bar is None:
            name = f"shards, lane {progress.lane}" if progress.lanes > 1 else "shards"
            bar = self._bars[progress.lane] = _bar(desc=name, unit="row")
        bar.total = round(progress.rows / progress.share) if progress.share > 0 else None
        bar.n = progress.rows
        bar.set_postfix_str(f"{progress.rate:,.0f} tokens/s", refresh=False)
        bar.update(0)

    def close(self) -> None:
        while self._bars:
            self._bars.popitem()[1].close()


class ProgressReporter:
    """Context manager that shows how far a run is; itself the ``on_progress`` of ``prepare``.

    On a terminal it shows a bar for each lane, elsewhere a log line at most every ``interval``
    seconds. ``clock`` gives monotonic seconds.
    """

    def __init__(self, interval: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval, self._clock = interval, clock
        self._last = clock()
        self._bars: _LaneBars | None = None

    def __enter__(self) -> "ProgressReporter":
        if sys.stderr is not None and sys.stderr.isatty():  # it may have been closed
            self._bars = _LaneBars()
        return self

    def __call__(self, progress: LaneProgress) -> None:
        if self._bars is not None:
            self._bars.show(progress)
            return
        now = self._clock()
        if now - self._last >= self._interval:
            self._last = now
            _LOG.info("%s", report_progress(progress))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.close()


class ProgressBars:
    """One bar for each stage of a notebook. ``step`` is the ``on_progress`` of caches and
    downloads, ``show_lane`` is the ``on_progress`` of ``prepare``."""

    def __init__(self) -> None:
        self._bars: dict[str, tqdm[None]] = {}
        self._lanes = _LaneBars()

    def step(self, name: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` are done; the bar closes when all are."""
        bar = self._bars.get(name)
        if bar is None:
            bar = self._bars[name] = _bar(total=total, desc=name)
        bar.n = done
        bar.refresh()
        if done >= total:
            self._bars.pop(name).close()

    def show_lane(self, progress: LaneProgress) -> None:
        """Show the rows a lane of the shard preparer has visited, of those that it will visit."""
        self._lanes.show(progress)

    def close(self) -> None:
        """Close what is still open."""
        self._lanes.close()
        while self._bars:
            self._bars.popitem()[1].close()
