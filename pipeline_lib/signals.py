"""The first SIGINT or SIGTERM requests a stop after the next commit; the second stops at once."""

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_LOG = logging.getLogger(__name__)


class StopRequest:
    """Context manager that catches both signals; ``signum`` is the first one, None before.

    Handlers can only be installed in the main thread; in other threads this does nothing.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether a stop was requested."""
        return self.signum is not None

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                self._before[signum] = signal.signal(signum, self._caught)
        return self

    def _caught(self, signum: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.signum = signum
        _LOG.warning(
            "%s: stopping at the end of the batch, after a commit; a second signal stops at once",
            signal.Signals(signum).name,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
