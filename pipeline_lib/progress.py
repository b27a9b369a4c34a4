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


def report_progress(progress: LaneProgress, train_tokens: int | None = None, lanes: int = 1) -> str:
    """One line: rows, documents, tokens, rate, time elapsed over all sessions, time left.

    ``train_tokens`` bounds the run (None: rows bound it), and each of the ``lanes`` takes an equal
    part of it. The time left is to the bound. Without a token bound the line also has a nominal
    projection to six billion train tokens, which it labels so.
    """
    line = (
        f"{progress.rows:,} rows, {progress.documents:,} documents, "
        f"{progress.train_tokens:,} train + {progress.val_tokens:,} val tokens, "
        f"{progress.rate:,.0f} tokens/s, {_duration(progress.elapsed_seconds)} elapsed"
    )
    share = _share(progress, train_tokens, lanes)
    if share > 0:
        left = progress.elapsed_seconds * max(1 / share - 1, 0)
        line += f", {_duration(left)} left to the bound"
    if train_tokens is None and progress.rate > 0:
        nominal = (NOMINAL_TOKENS - progress.train_tokens) / progress.rate
        line += f" (nominal: {_duration(nominal)} to 6 billion train tokens)"
    return line


def _share(progress: LaneProgress, train_tokens: int | None, lanes: int) -> float:
    if train_tokens is not None:
        return progress.train_tokens / (train_tokens / lanes)
    return progress.rows / max(progress.rows_at_most or 0, 1)


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {whole % 60:02d} s"


def _bar(*, total: int | None = None, desc: str | None = None, unit: str = "it") -> "tqdm[None]":
    from tqdm.auto import tqdm  # slow to import, and a log file needs none

    return tqdm(total=total, desc=desc, unit=unit, unit_scale=True)


class ProgressReporter:
    """Context manager that shows how far a run is; itself the ``on_progress`` of ``prepare``.

    On a terminal it shows a bar, elsewhere a log line at most every ``interval`` seconds.
    ``train_tokens`` and ``max_documents`` are the bounds of the run, of which one is None;
    ``lanes`` share them. ``clock`` gives monotonic seconds.
    """

    def __init__(
        self,
        interval: float,
        *,
        train_tokens: int | None = None,
        max_documents: int | None = None,
        lanes: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval, self._clock = interval, clock
        self._train_tokens, self._max_documents, self._lanes = train_tokens, max_documents, lanes
        self._last = clock()
        self._bar: tqdm[None] | None = None

    def __enter__(self) -> "ProgressReporter":
        if sys.stderr is not None and sys.stderr.isatty():  # it may have been closed
            total = self._train_tokens or self._max_documents
            self._bar = _bar(total=total, unit="token" if self._train_tokens else "row")
        return self

    def __call__(self, progress: LaneProgress) -> None:
        if self._bar is not None:
            self._bar.n = progress.train_tokens if self._train_tokens else progress.rows
            self._bar.set_postfix_str(f"{progress.rate:,.0f} tokens/s", refresh=False)
            self._bar.update(0)
            return
        now = self._clock()
        if now - self._last >= self._interval:
            self._last = now
            _LOG.info("%s", report_progress(progress, self._train_tokens, self._lanes))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()


class ProgressBars:
    """One bar for each stage of a notebook. ``step`` is the ``on_progress`` of caches and
    downloads, ``show_lane`` is the ``on_progress`` of ``prepare``."""

    def __init__(self) -> None:
        self._bars: dict[str, tqdm[None]] = {}

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
        """Show the rows a lane of the shard preparer has visited."""
        name = f"shards, lane {progress.lane}"
        bar = self._bars.get(name)
        if bar is None:
            bar = self._bars[name] = _bar(desc=name, unit="row")
        bar.n = progress.rows
        bar.set_postfix_str(f"{progress.rate:,.0f} tokens/s")

    def close(self) -> None:
        """Close what is still open."""
        while self._bars:
            self._bars.popitem()[1].close()
