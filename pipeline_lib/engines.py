"""Engines run lanes; an engine is anything shaped like ``map``: results in input order.

``prefetch`` overlaps the stages inside one lane: it moves an iterator to a thread and keeps
a few finished items ready. ``in_threads`` works on several items of one stage at a time.
Reading, hashing and the fast encoder release the interpreter lock, so threads are enough.
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


def in_threads(
    work: Callable[[Item], Result], items: Closable[Item], threads: int
) -> Generator[Result, None, None]:
    """``work`` done on up to ``threads`` items at a time; results in the order of the items.

    An exception, of the source or the work, is raised at the place of its item. Closing waits
    for what is being worked on, and closes the source.
    """
    pending: deque[Future[Result]] = deque()
    with contextlib.closing(items):
        pool = ThreadPoolExecutor(threads)
        try:
            for future in _submitted(pool, work, items):
                pending.append(future)
                if len(pending) > threads:  # one waits, so that no thread does
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
    except Exception as error:  # it is raised where its item would have come
        failed: Future[Result] = Future()
        failed.set_exception(error)
        yield failed
