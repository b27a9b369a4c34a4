"""Who reads an order of batches, and whether it hands out each batch before it reads the next.

A data loader with worker processes takes batches from its sampler long before it hands them out.
Nobody tells the sampler, so it looks who calls it: the data loaders of torch and of torchdata (and
of whoever builds on them) are known by what they keep, accelerate by its name, and a thread of its
own by its number.
"""

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

_KEPT_BY_ITERATORS = ("_sampler_iter", "_index_sampler", "_num_workers")
_READS_ONE_AHEAD = "accelerate"
"""It reads one batch more than it handed out, to know which one is the last."""
_KEEPS_COUNT = "torchdata"
"""It asks right after it read a batch, and keeps the answer until it hands out that batch."""


class Reader(NamedTuple):
    """Who takes batches: its thread, and its name if it reads ahead."""

    thread: int
    ahead: str

    def hides(self) -> str:
        """What was read and may not be handed out, as seen by who asks now; empty if nothing."""
        if self.thread != threading.get_ident():
            return "another thread"
        return self.ahead


def reader_here(ahead: str) -> Reader:
    """The reader in this thread."""
    return Reader(threading.get_ident(), ahead)


def read_ahead_by() -> str:
    """The name of what reads ahead in the call that is under way; empty if nothing is known to."""
    names = []
    for frame in _callers():
        iterator = _data_loader_iterator(frame)
        if iterator is not None and iterator._num_workers:
            names.append(f"a data loader with {iterator._num_workers} worker processes")
        elif _library(frame) == _READS_ONE_AHEAD:
            names.append(f"a data loader of {_READS_ONE_AHEAD}")
    return names[0] if names else ""


def asked_by_a_reader() -> bool:
    """Whether the one who asks for the position is itself what reads."""
    return any(
        _library(frame) == _KEEPS_COUNT or _data_loader_iterator(frame) is not None
        for frame in _callers()
    )


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _library(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _data_loader_iterator(frame: FrameType) -> Any:
    """The iterator of a data loader, if the frame is in one of its methods."""
    if frame.f_code.co_varnames[:1] != ("self",):
        return None
    mine = frame.f_locals.get("self")
    kept = getattr(mine, "__dict__", {})
    return mine if all(name in kept for name in _KEPT_BY_ITERATORS) else None
