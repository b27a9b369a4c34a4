"""Engines run lanes; an engine is anything shaped like ``map``: results in input order.

``prefetch`` overlaps the stages inside one lane: it moves an iterator to a thread and keeps
a few finished items ready. Reading, hashing and the fast encoder release the interpreter
lock, so threads are enough.
"""

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Anything shaped like ``map``."""

    def __call__(
        self, work: Callable[[Item], Result], items: list[Item], /
    ) -> Iterator[Result]: ...


def in_order(work: Callable[[Item], Result], items: list[Item], /) -> Iterator[Result]:
    """The builtin engine: one lane after another in this process."""
    return map(work, items)


ENGINES: dict[str, Engine] = {"map": in_order}


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


_END = object()


def prefetch(items: Generator[Item, None, None], depth: int) -> Generator[Item, None, None]:
    """The same items in the same order, made up to ``depth`` ahead in a thread.

    An exception of the source is raised at the place of the item that failed. Closing the
    generator stops the thread and closes the source before it returns.
    """
    ready: queue.Queue[Any] = queue.Queue(maxsize=depth)
    stop = threading.Event()
    thread = threading.Thread(target=_fill, args=(items, ready, stop), daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, _Failure):
                raise item.error
            yield item
    finally:
        stop.set()
        while thread.is_alive():  # make room for a put that is waiting
            _drain(ready)
            thread.join(0.01)


def _fill(
    items: Generator[Item, None, None], ready: "queue.Queue[Any]", stop: threading.Event
) -> None:
    last: Any = _END
    try:
        for item in items:
            ready.put(item)
            if stop.is_set():
                break
    except BaseException as error:  # whatever it is, it belongs to the consumer's thread
        last = _Failure(error)
    finally:
        items.close()
        ready.put(last)


def _drain(ready: "queue.Queue[Any]") -> None:
    try:
        while True:
            ready.get_nowait()
    except queue.Empty:
        return
