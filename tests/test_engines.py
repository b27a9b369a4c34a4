"""Engines keep the order; prefetch changes nothing but the time."""

import threading
import time
from collections.abc import Generator

import pytest

from pipeline_lib.engines import ENGINES, in_order, prefetch


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
    assert list(prefetch(counted(50, log), 2)) == list(range(50))
    assert log[-1] == "closed"


def test_prefetch_runs_ahead_by_its_depth_and_no_further() -> None:
    log: list[str] = []
    ahead = prefetch(counted(50, log), 2)
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
    ahead = prefetch(counted(50, log), 2)
    next(ahead)
    ahead.close()
    assert log[-1] == "closed" and threading.active_count() == before


def test_a_failure_arrives_behind_the_items_before_it() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        raise KeyError("lost")

    ahead = prefetch(failing(), 4)
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="lost"):
        next(ahead)


def test_prefetch_of_prefetch_closes_down_to_the_first_source() -> None:
    log: list[str] = []
    outer = prefetch(prefetch(counted(50, log), 1), 1)
    next(outer)
    outer.close()
    assert log[-1] == "closed"


def test_items_are_made_before_the_first_is_asked_for() -> None:
    log: list[str] = []
    ahead = prefetch(counted(50, log), 2)
    deadline = time.monotonic() + 5
    while not log and time.monotonic() < deadline:
        time.sleep(0.001)
    assert log
    ahead.close()
    ahead.close()
    assert log[-1] == "closed"


def test_an_end_stays_an_end() -> None:
    ahead = prefetch(counted(1, []), 2)
    assert list(ahead) == [0]
    assert list(ahead) == []
