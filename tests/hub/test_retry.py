"""Calls to the Hub are repeated a bounded number of times, and each pause is told."""

from collections.abc import Callable
from typing import Any

import pytest
from hub_world import QUICK, TOKEN, fetch, listing, publish
from loopback_hub import Hub

from pipeline_lib.errors import HubError
from pipeline_lib.hub import client
from pipeline_lib.hub.refusals import Network, RateLimited
from pipeline_lib.hub.retry import RetryPolicy, with_retries


@pytest.mark.parametrize(
    ("path", "method", "effect"),
    [
        ("/api/datasets/acme/chat", "GET", {"status": 503}),
        ("/api/datasets/acme/chat", "GET", {"status": 429, "headers": {"Retry-After": "1"}}),
        ("/api/datasets/acme/chat", "GET", {"reset": True}),
        ("/cdn/", "GET", {"status": 503}),
        ("/cdn/", "GET", {"reset": True, "cut_after": 100}),
        ("/cdn/", "GET", {"status": 429, "headers": {"Retry-After": "1"}}),
    ],
)
def test_a_passing_fault_is_survived(
    hub: Hub, path: str, method: str, effect: dict[str, object]
) -> None:
    publish(hub)
    fault = hub.fault(path, method=method, **effect)
    assert fetch().stat().st_size > 100
    assert fault.times == 0


def test_a_lasting_server_error_is_a_network_error_after_bounded_tries(hub: Hub) -> None:
    publish(hub)
    fault = hub.fault("/api/datasets/", status=500, times=100)
    with pytest.raises(Network, match="server error 500"):
        listing()
    assert fault.times == 97


def test_a_rate_limit_longer_than_our_patience_says_so(hub: Hub) -> None:
    publish(hub)
    fault = hub.fault("/api/datasets/", status=429, headers={"Retry-After": "900"}, times=9)
    with pytest.raises(RateLimited, match=r"rate limit .* in 900 s; a token .* raises the limit"):
        listing()
    assert fault.times == 8


def test_each_pause_is_told_before_it_and_is_as_long_as_the_server_asked_for(hub: Hub) -> None:
    publish(hub)
    hub.fault("/api/datasets/", status=429, headers={"Retry-After": "1"})
    told: list[tuple[float, str]] = []
    retries = RetryPolicy(3, 0.01, 2.0, on_wait=lambda seconds, why: told.append((seconds, why)))
    client.resolve_revision("acme/chat", retries=retries)
    assert [seconds for seconds, _ in told] == [1.0]
    assert "dataset acme/chat: rate limit of the Hub reached (429)" in told[0][1]


def test_no_reason_of_a_pause_shows_the_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(hub, readers=(TOKEN,))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.fault("/api/datasets/", status=503)
    hub.fault("/cdn/", status=503)
    told: list[str] = []
    retries = RetryPolicy(3, 0.01, 2.0, on_wait=lambda _, why: told.append(why))
    found = client.resolve_revision("acme/chat", retries=retries)
    client.fetch_file(found, found.files[-1].path, retries=retries)
    assert len(told) == 2 and TOKEN not in "".join(told)


def test_a_fault_of_the_local_disk_is_not_called_a_network_error() -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        with_retries("x", full, retries=QUICK)
    assert not isinstance(caught.value, HubError)


def test_a_server_that_is_gone_is_a_network_error() -> None:
    def refuse() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    pauses: list[float] = []
    with pytest.raises(Network, match="ConnectionRefusedError"):
        with_retries("x", refuse, retries=QUICK, sleep=pauses.append)
    assert pauses == [0.01, 0.02]


def failing(*errors: BaseException) -> Callable[[], str]:
    """A call that raises these errors, one after the other, and then gives a result."""
    left = [*errors]

    def call() -> str:
        if left:
            raise left.pop(0)
        return "result"

    return call


def gone() -> ConnectionRefusedError:
    return ConnectionRefusedError(111, "Connection refused")


def test_the_pause_doubles_and_the_result_comes_when_the_fault_has_passed() -> None:
    pauses: list[float] = []
    call = failing(gone(), gone(), gone())
    retries = RetryPolicy(tries=4, first_pause=2.0)
    assert with_retries("x", call, retries=retries, sleep=pauses.append) == "result"
    assert pauses == [2.0, 4.0, 8.0]


def test_a_pause_beyond_the_longest_one_is_not_waited_for() -> None:
    pauses: list[float] = []
    retries = RetryPolicy(tries=9, first_pause=1.0, longest_pause=2.0)
    with pytest.raises(Network):
        with_retries(
            "x", failing(*[gone() for _ in range(9)]), retries=retries, sleep=pauses.append
        )
    assert pauses == [1.0, 2.0]


@pytest.mark.parametrize("error", [KeyError("x"), ValueError("x"), KeyboardInterrupt()])
def test_other_errors_are_raised_at_once_as_they_are(error: BaseException) -> None:
    pauses: list[float] = []
    with pytest.raises(type(error)) as caught:
        with_retries("x", failing(error), retries=QUICK, sleep=pauses.append)
    assert caught.value is error and pauses == []


@pytest.mark.parametrize("wrong", [{"tries": 0}, {"first_pause": -1.0}, {"longest_pause": -1.0}])
def test_a_policy_that_can_not_be_followed_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .*; expected"):
        RetryPolicy(**wrong)
