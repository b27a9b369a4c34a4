"""The first signal asks for a stop, the second stops at once, and handlers come back."""

import os
import signal
import threading

import pytest

from pipeline_lib.signals import StopRequest


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_only_noted(signum: signal.Signals) -> None:
    with StopRequest() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signum)
        assert stop.requested and stop.signum == signum


def test_the_second_signal_stops_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), StopRequest():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)


def test_the_handlers_of_before_come_back_even_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), StopRequest():
        _ = 1 / 0
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))


def test_outside_the_main_thread_nothing_is_installed() -> None:
    found: list[object] = []

    def work() -> None:
        with StopRequest() as stop:
            found.extend([signal.getsignal(signal.SIGINT), stop.requested])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT), False]
