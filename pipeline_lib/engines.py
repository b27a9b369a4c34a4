"""Engines run lanes; an engine is anything shaped like ``map``: results in input order.

``prefetch`` overlaps the stages inside one lane: it moves an iterator to a thread and keeps
a few finished items ready. Reading, hashing and the fast encoder release the interpreter
lock, so threads are enough.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


Made = TypeVar("Made", covariant=True)


class Closable(Protocol[Made]):
    """An iterator that can be closed early, such as a generator."""

    def __iter__(self) -> Iterator[Made]: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """Anything shaped like ``map``."""

    def __call__(
        self, work: Callable[[Item], Result], items: list[Item], /
    ) -> Iterator[Result]: ...


def in_order(work: Callable[[Item], Result], items: list[Item], /) -> Iterator[Result]:
    """The builtin engine: one lane after another in this process."""
    return map(work, items)


ENGINES: dict[str, Engine] = {"map": in_order}


_END = object()


class _Failure(NamedTuple):
    error: BaseException


class Prefetched(Generic[Item]):
    """The same items in the same order, made up to ``depth`` ahead in a thread.

    The thread starts at once. An exception of the source is raised at the place of the item
    that failed. ``close`` stops the thread and closes the source before it returns.
    """

    def __init__(self, items: Closable[Item], depth: int) -> None:
        self._ready: queue.Queue[Any] = queue.Queue(maxsize=depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._fill, args=(items,), daemon=True)
        self._thread.start()

    def _fill(self, items: Closable[Item]) -> None:
        last: Any = _END
        try:
            for item in items:
                self._ready.put(item)
                if self._stop.is_set():
                    break
        except BaseException as error:  # whatever it is, it belongs to the consumer's thread
            last = _Failure(error)
        finally:
            items.close()
            self._ready.put(last)

    def __iter__(self) -> "Prefetched[Item]":
        return self

    def __next__(self) -> Item:
        item = self._ready.get()
        if item is _END:
            self._ready.put(_END)  # every further call ends too
            raise StopIteration
        if isinstance(item, _Failure):
            self._ready.put(_END)
            raise item.error
        return item  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop early; closing twice is fine."""
        self._stop.set()
        while self._thread.is_alive():  # make room for a put that is waiting
            with contextlib.suppress(queue.Empty):
                self._ready.get_nowait()
            self._thread.join(0.01)


def prefetch(items: Closable[Item], depth: int) -> Prefetched[Item]:
    """Overlap the making of ``items`` with their use; results are the same, only sooner."""
    return Prefetched(items, depth)
