"""Engines keep the order; reading ahead changes nothing but the time."""

import threading
import time
from collections.abc import Generator

import pytest

from pipeline_lib.engines import ENGINES, Prefetched, in_order, in_threads


def counted(count: int, log: list[str]) -> Generator[int, None, None]:
    try:
        for number in range(count):
            log.append(f"made {number}")
            yield number
    finally:
        log.append("closed")


def test_the_builtin_engine_gives_results_in_input_order() -> None:
    assert list(in_order(lambda n: n * n, [3, 1, 2])) == [9, 1, 4]
    assert ENGINES["map"] is in_order


def test_prefetch_gives_the_same_items_in_the_same_order() -> None:
    log: list[str] = []
    assert list(Prefetched(counted(50, log), 2)) == list(range(50))
    assert log[-1] == "closed"


def test_prefetch_runs_ahead_by_its_depth_and_no_further() -> None:
    log: list[str] = []
    ahead = Prefetched(counted(50, log), 2)
    assert next(ahead) == 0
    deadline = time.monotonic() + 5
    while len(log) < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert log == [f"made {n}" for n in range(4)]  # one taken, two ready, one waits for room
    ahead.close()


def test_closing_early_closes_the_source_and_ends_the_thread() -> None:
    log: list[str] = []
    before = threading.active_count()
    ahead = Prefetched(counted(50, log), 2)
    next(ahead)
    ahead.close()
    assert log[-1] == "closed" and threading.active_count() == before


def test_a_failure_arrives_behind_the_items_before_it() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        raise KeyError("lost")

    ahead = Prefetched(failing(), 4)
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="lost"):
        next(ahead)


def test_prefetch_of_prefetch_closes_down_to_the_first_source() -> None:
    log: list[str] = []
    outer = Prefetched(Prefetched(counted(50, log), 1), 1)
    next(outer)
    outer.close()
    assert log[-1] == "closed"


def test_items_are_made_before_the_first_is_asked_for() -> None:
    log: list[str] = []
    ahead = Prefetched(counted(50, log), 2)
    deadline = time.monotonic() + 5
    while not log and time.monotonic() < deadline:
        time.sleep(0.001)
    assert log
    ahead.close()
    ahead.close()
    assert log[-1] == "closed"


def test_an_end_stays_an_end() -> None:
    ahead = Prefetched(counted(1, []), 2)
    assert list(ahead) == [0]
    assert list(ahead) == []


def test_threads_give_results_in_the_order_of_the_items() -> None:
    def slow_for_even(number: int) -> int:
        time.sleep(0.003 if number % 2 == 0 else 0)
        return number * number

    log: list[str] = []
    results = in_threads(slow_for_even, counted(20, log), 3)
    assert list(results) == [n * n for n in range(20)] and log[-1] == "closed"


def test_threads_work_on_as_many_items_at_a_time_as_asked() -> None:
    meeting = threading.Barrier(3, timeout=10)
    assert list(in_threads(lambda _: meeting.wait() >= 0, counted(9, []), 3)) == [True] * 9


def test_threads_take_one_item_more_than_they_work_on() -> None:
    log: list[str] = []
    results = in_threads(lambda number: number, counted(50, log), 2)
    assert next(results) == 0
    assert log == [f"made {n}" for n in range(3)]
    results.close()
    assert log[-1] == "closed"


def test_a_failure_of_the_work_or_the_source_arrives_in_its_place() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise KeyError("lost")

    results = in_threads(lambda number: 10 // (number - 2), failing(), 4)
    assert next(results) == -10
    with pytest.raises(ZeroDivisionError):
        next(results)
    results = in_threads(lambda number: number, failing(), 4)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(KeyError, match="lost"):
        next(results)


def test_threads_end_with_their_results() -> None:
    before = threading.active_count()
    results = in_threads(lambda number: number, counted(50, []), 2)
    next(results)
    results.close()
    assert threading.active_count() == before
