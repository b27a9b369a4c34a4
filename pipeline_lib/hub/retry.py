"""Calls to the Hub, repeated a bounded number of times.

The Hub clients give up at once on most server errors and broken connections. Here such a call is
repeated after a pause: the pause doubles, and it is never shorter than the server asked for. The
error of the last attempt says how to go on.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from pipeline_lib.hub.refusals import PassingFault, refusal, transport_errors

if TYPE_CHECKING:
    from tenacity import RetryCallState

Result = TypeVar("Result")
OnWait = Callable[[float, str], None]
"""Called before a pause, with its seconds and its reason."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RetryPolicy:
    """How often a call to the Hub is repeated, and how long to wait in between.

    - ``tries``: attempts in all, at least 1.
    - ``first_pause``: seconds between the first two attempts. Each further pause is twice as long.
      If the server asks for a longer pause, that one is taken.
    - ``longest_pause``: in seconds. The call fails at once if the next pause would be longer.
    - ``on_wait(seconds, reason)``: called before each pause.

    ``ValueError`` for fewer than one try or a negative pause.
    """

    tries: int = 5
    first_pause: float = 1.0
    longest_pause: float = 320.0
    on_wait: OnWait | None = None

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise ValueError(f"tries is {self.tries}; expected at least 1")
        for name in ("first_pause", "longest_pause"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected seconds, 0 or more")


DEFAULT_RETRIES = RetryPolicy()


def with_retries(
    subject: str,
    call: Callable[[], Result],
    *,
    retries: RetryPolicy = DEFAULT_RETRIES,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """The call's result; after server errors, rate limits and broken connections it is repeated.

    ``subject`` names the repository or file in errors. Other refusals, and the last attempt's,
    are raised as the ``HubError`` that names them; a fault of the local disk is raised unchanged.
    """
    import tenacity  # takes 100 ms, and the command line must start fast

    repeated = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(PassingFault),
        wait=partial(_pause, retries),
        stop=partial(_gives_up, retries),
        before_sleep=partial(_tell, retries),
        sleep=sleep,
        reraise=True,
    )
    return repeated(partial(_attempt, subject, call))


def _attempt(subject: str, call: Callable[[], Result]) -> Result:
    """The call's result; an error of the Hub or the connection becomes the one that names it."""
    try:
        return call()
    except transport_errors() as error:
        refused = refusal(subject, error)
        if refused is error:
            raise
        raise refused from error


def _pause(retries: RetryPolicy, state: "RetryCallState") -> float:
    growing = retries.first_pause * 2.0 ** (state.attempt_number - 1)
    return max(growing, _fault_of(state).asked_pause)


def _gives_up(retries: RetryPolicy, state: "RetryCallState") -> bool:
    is_last = state.attempt_number >= retries.tries
    return is_last or state.upcoming_sleep > retries.longest_pause


def _tell(retries: RetryPolicy, state: "RetryCallState") -> None:
    seconds, reason = state.upcoming_sleep, str(_fault_of(state))
    _LOG.info("%s; trying again in %.0f s", reason, seconds)
    if retries.on_wait is not None:
        retries.on_wait(seconds, reason)


def _fault_of(state: "RetryCallState") -> PassingFault:
    """The fault of the attempt that just failed; no other error is repeated."""
    return cast(PassingFault, state.outcome and state.outcome.exception())
