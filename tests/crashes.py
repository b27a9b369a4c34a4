"""Simulated crashes and damage at a chosen call; ``system_calls.system`` is replaced for this.

A process that died does nothing more, so every call after the chosen one dies too, also those in
``finally`` blocks. fsync is counted but not executed: a killed process loses no written byte, so
fsync would only cost time.
"""

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

from pipeline_lib.corpus.layout import staging_folder
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.options import PrepareOptions
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.records import LaneProgress
from pipeline_lib.storage import system_calls

CALLS = tuple(vars(system_calls.system))
HALVED = ("write", "rmtree")
"""Calls of which half may happen: a death in any other call is the death before it."""


class Killed(BaseException):
    """Stands for SIGKILL: no code of the library catches it."""


class Seam:
    """Counts durable calls; at call number ``at`` the process dies or the call fails.

    ``torn``: half of the effect of that call happens first. ``error``: the call raises this once,
    instead of a death. ``only``: only calls of this name are counted. ``watch``: the folder whose
    listing is noted at each call.
    """

    def __init__(
        self,
        at: int,
        torn: bool = False,
        error: BaseException | None = None,
        only: str | None = None,
        watch: Path | None = None,
    ) -> None:
        self.at, self.torn, self.error, self.only, self.watch = at, torn, error, only, watch
        self.calls, self.names, self.dead = 0, list[str](), False
        self.listings = list[list[Path]]()
        self._lock = threading.Lock()

    def wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with self._lock:
                self._count(name, real, arguments)
            return None if name == "fsync" else real(*arguments)

        return call

    def places(self) -> list[int]:
        """The calls to die at: each of them finds the disk in a state of its own.

        An fsync changes nothing for a killed process. So a death there is the death at the next
        call, unless files that no call makes, as ``open`` does, came in between.
        """
        pairs = zip(self.names, self.listings, self.listings[1:], strict=False)
        equal = {n for n, (name, one, two) in enumerate(pairs, 1) if name == "fsync" and one == two}
        return [n for n in range(1, self.calls + 1) if n not in equal]

    def _count(self, name: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        if self.dead:
            raise Killed
        if self.only in (None, name):
            self.calls += 1
            self.names.append(name)
            self.listings.append(sorted(self.watch.rglob("*")) if self.watch else [])
        if self.calls != self.at or self.only not in (None, name):
            return
        if self.error is not None:
            raise self.error
        self.dead = True
        if self.torn:
            _half(name, real, arguments)
        raise Killed


def _half(name: str, real: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if name == "write":
        real(arguments[0], arguments[1][: len(arguments[1]) // 2])
    elif name == "rmtree":
        files = sorted(path for path in Path(arguments[0]).rglob("*") if path.is_file())
        for path in files[::2]:
            path.unlink()


@contextlib.contextmanager
def seam(at: int = -1, **kind: Any) -> Iterator[Seam]:
    """Inside the block durable calls go through a ``Seam``; ``at=-1`` only counts them."""
    watched, real = Seam(at, **kind), dict(vars(system_calls.system))
    for name in CALLS:
        setattr(system_calls.system, name, watched.wrapped(name, real[name]))
    try:
        yield watched
    finally:
        vars(system_calls.system).update(real)


def survives(work: Callable[[], object], at: int, **kind: Any) -> bool:
    """Do the work with a death at call ``at``; True if it ended before that call."""
    with seam(at, **kind):
        try:
            work()
        except Killed:
            return False
    return True


@contextlib.contextmanager
def interleaved(places: Container[int], other: Callable[[], object]) -> Iterator[list[str]]:
    """Just before these durable calls of the block, ``other`` does the work of another process.

    Yields the names of the block's own calls so far.
    """
    real, names = dict(vars(system_calls.system)), list[str]()
    within = False

    def wrapped(name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal within
            if not within:
                names.append(name)
                if len(names) in places:
                    within = True
                    try:
                        other()
                    finally:
                        within = False
            return None if name == "fsync" else real[name](*arguments)

        return call

    for name in CALLS:
        setattr(system_calls.system, name, wrapped(name))
    try:
        yield names
    finally:
        vars(system_calls.system).update(real)


def ticking() -> Callable[[], float]:
    """A clock that advances by one second on every call."""
    return map(float, itertools.count()).__next__


def committing(**more: Any) -> PrepareOptions:
    """Options of a run with the reference encoder that commits after every batch."""
    return PrepareOptions(encoder="tokenizers", checkpoint_interval=1, clock=ticking(), **more)


def run(recipe: Recipe, target: Path, **options: Any) -> Manifest:
    """Begin a run, or go on with it, and commit behind every batch."""
    return prepare(recipe, target, resume="auto", options=committing(**options))


def leave_unfinished(recipe: Recipe, target: Path, batches: int = 4, lane: int = 0) -> Path:
    """Start a run and kill it in batch number ``batches``; earlier batches are committed.

    Returns the staging folder.
    """
    seen = 0

    def die(progress: LaneProgress) -> None:
        nonlocal seen
        seen += progress.lane == lane
        if seen == batches:
            raise Killed

    with contextlib.suppress(Killed):
        prepare(recipe, target, options=committing(on_progress=die))
    if seen != batches:
        raise ValueError(f"the run ended in batch {seen}, before it could be killed in {batches}")
    return staging_folder(target)


def flip(path: Path, position: int) -> None:
    """Change one bit of the byte at ``position``, counted from the end if negative."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def touch(path: Path, seconds: int = 5) -> None:
    """Move the modification time of a file without changing its content."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + seconds * 10**9))
