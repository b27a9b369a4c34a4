"""Engines run lanes. An engine is any function like ``map``: it gives results in input order.

``Prefetched`` overlaps the stages inside one lane: it runs an iterator in a thread and keeps a few
finished items ready. ``in_threads`` works on several items of one stage at a time. Threads are
enough, because reading, hashing and the fast encoder release the interpreter lock.
"""

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


Item_co = TypeVar("Item_co", covariant=True)


class Closable(Protocol[Item_co]):
    """An iterator that can be closed early, such as a generator."""

    def __iter__(self) -> Iterator[Item_co]: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """A function like ``map``: it gives results in input order."""

    def __call__(
        self, work: Callable[[Item], Result], items: list[Item], /
    ) -> Iterator[Result]: ...


def in_order(work: Callable[[Item], Result], items: list[Item], /) -> Iterator[Result]:
    """The default engine: it runs one lane after another in this process."""
    return map(work, items)


ENGINES: dict[str, Engine] = {"map": in_order}


_END = object()


class _Failure(NamedTuple):
    error: BaseException


class Prefetched(Generic[Item]):
    """The same items in the same order; a thread makes up to ``depth`` of them in advance.

    The thread starts at once. An exception of the source is raised in place of the failed item.
    ``close`` stops the thread and closes the source before it returns.
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
        except BaseException as error:  # every exception is raised in the consumer's thread
            last = _Failure(error)
        finally:
            items.close()
            self._ready.put(last)

    def __iter__(self) -> "Prefetched[Item]":
        return self

    def __next__(self) -> Item:
        item = self._ready.get()
        if item is _END:
            self._ready.put(_END)  # every later call ends too
            raise StopIteration
        if isinstance(item, _Failure):
            self._ready.put(_END)
            raise item.error
        return item  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop early; a second call does nothing."""
        self._stop.set()
        while self._thread.is_alive():  # make room for a put that is waiting
            with contextlib.suppress(queue.Empty):
                self._ready.get_nowait()
            self._thread.join(0.01)


def in_threads(
    work: Callable[[Item], Result], items: Closable[Item], threads: int
) -> Generator[Result, None, None]:
    """Apply ``work`` to up to ``threads`` items at a time; results come in the order of the items.

    An exception of the source or of ``work`` is raised in place of its item. Closing waits for the
    items in progress and closes the source.
    """
    pending: deque[Future[Result]] = deque()
    with contextlib.closing(items):
        pool = ThreadPoolExecutor(threads)
        try:
            for future in _submitted(pool, work, items):
                pending.append(future)
                if len(pending) > threads:  # one item more, so that no thread is idle
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _submitted(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Closable[Item]
) -> Iterator[Future[Result]]:
    try:
        for item in items:
            yield pool.submit(work, item)
    except Exception as error:  # it is raised in place of its item
        failed: Future[Result] = Future()
        failed.set_exception(error)
        yield failed
