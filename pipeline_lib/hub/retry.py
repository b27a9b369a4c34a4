"""Every question to the Hub: named refusals, bounded repetition.

The Hub clients give up at once on most server errors and broken connections, and tell
little apart. Here a call is repeated a bounded number of times, after the pause the server
asks for or growing ones, and what remains is raised as the error that says what to do.

No text made here holds a token or a signed address: messages of the clients are not passed
on, only what kind of answer it was.
"""

import contextlib
import errno
import importlib
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pipeline_lib.errors import DamagedFile, HubError

Result = TypeVar("Result")
OnWait = Callable[[float, str], None]

_LOG = logging.getLogger(__name__)
_LOCAL_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM, errno.EMFILE)


class Gated(HubError):
    """The repository asks for accepted terms and no token was sent."""


class NoAccess(HubError):
    """A token was sent and it does not open the repository."""


class NotFound(HubError):
    """No such repository or file, or a private one without a token."""


class RevisionNotFound(HubError):
    """The repository exists, the revision does not."""


class RateLimited(HubError):
    """Too many requests, longer than our patience."""


class Network(HubError):
    """No answer, or only server errors."""


class DamagedDownload(DamagedFile, HubError):
    """The bytes that arrived are not those the Hub lists, twice."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long to try: attempts, first pause in seconds (it doubles), longest pause."""

    tries: int = 5
    first_pause: float = 1.0
    longest_pause: float = 320.0


DEFAULT_RETRIES = RetryPolicy()


def with_retries(
    what: str,
    call: Callable[[], Result],
    *,
    on_wait: OnWait | None = None,
    retries: RetryPolicy = DEFAULT_RETRIES,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """The call's result; server errors, rate limits and broken connections are tried again.

    ``on_wait(seconds, why)`` hears of each pause. What does not pass is raised as the
    ``HubError`` that names it; a fault of the local disk is raised as it is.
    """
    passing = _transport_errors()
    for attempt in range(retries.tries):
        try:
            return call()
        except passing as error:
            refusal = _refusal(what, error)
            pause = max(retries.first_pause * 2**attempt, _asked_pause(_answer_in(error)))
            if refusal is error:
                raise
            hopeless = not isinstance(refusal, RateLimited | Network)
            if hopeless or attempt + 1 == retries.tries or pause > retries.longest_pause:
                raise refusal from error
        _LOG.info("%s; trying again in %.0f s", refusal, pause)
        if on_wait is not None:
            on_wait(pause, str(refusal))
        sleep(pause)
    raise ValueError(f"patience.tries is {retries.tries}; at least one try is needed")


def _transport_errors() -> tuple[type[Exception], ...]:
    """What a broken connection looks like in the HTTP libraries that happen to be installed."""
    from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError

    kinds: list[type[Exception]] = [OSError, EntryNotFoundError, RevisionNotFoundError]
    for name in ("httpx", "httpx2"):
        with contextlib.suppress(ModuleNotFoundError):
            kinds.append(importlib.import_module(name).TransportError)
    return tuple(kinds)


def _answer_in(error: BaseException) -> BaseException:
    """The error that holds the Hub's answer, where a client wrapped it in another one."""
    seen: BaseException | None = error
    while seen is not None:
        if _status(seen) is not None:
            return seen
        seen = seen.__cause__ or seen.__context__
    return error


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    return getattr(response, "status_code", None)


def _asked_pause(error: BaseException) -> float:
    """Seconds the server asked for in ``Retry-After`` or ``RateLimit``; 0 if it did not."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    value = str(headers.get("Retry-After", "")).strip()
    if value.isdigit():
        return float(value)
    window = re.search(r"\bt=(\d+)", str(headers.get("RateLimit", "")))
    return float(window.group(1)) if window and _status(error) == 429 else 0.0


def _refusal(what: str, raised: Exception) -> Exception:
    """The error of ours that says what the answer was and what to do about it."""
    from huggingface_hub import errors, get_token

    error = _answer_in(raised)
    status, has_token = _status(error), get_token() is not None
    if isinstance(error, errors.GatedRepoError):
        if has_token:
            return NoAccess(
                f"{what} is gated and the token in use has no access ({status}); accept the terms "
                "on its page on the Hub (approval may take time) or use another account's token"
            )
        return Gated(
            f"{what} is gated; accept the terms on its page on the Hub, then set HF_TOKEN or run "
            "`hf auth login`"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return RevisionNotFound(f"{what}: the Hub knows no such revision; check its spelling")
    if isinstance(error, errors.RepositoryNotFoundError) or (
        isinstance(error, errors.EntryNotFoundError)
        and not isinstance(error, errors.LocalEntryNotFoundError)
    ):
        return NotFound(
            f"{what} was not found on the Hub; check the name"
            + ("" if has_token else ", or set HF_TOKEN if it is private")
        )
    if (
        isinstance(raised, FileNotFoundError)
        and not isinstance(raised, errors.LocalEntryNotFoundError)
        and not status
    ):
        return NotFound(f"{what}: no data files were found there; check config, split and path")
    if status in (401, 403):
        return NoAccess(f"{what}: the Hub refused the token ({status}); renew or unset HF_TOKEN")
    if status == 429:
        hint = "" if has_token else "; a token (HF_TOKEN) raises the limit"
        pause = _asked_pause(error)
        later = f"in {pause:.0f} s" if pause else "later"
        return RateLimited(f"{what}: rate limit of the Hub reached (429); try {later}{hint}")
    return _no_answer(what, raised, status)


def _no_answer(what: str, error: Exception, status: int | None) -> Exception:
    from huggingface_hub.errors import OfflineModeIsEnabled

    if any(isinstance(e, OfflineModeIsEnabled) for e in (error, error.__cause__)):
        return HubError(f"{what}: HF_HUB_OFFLINE is set and it is not in the cache; unset it")
    if isinstance(error, OSError) and error.errno in _LOCAL_FAULTS:
        return error
    if status is not None and status < 500:
        return HubError(f"{what}: the Hub answered {status}; expected the data")
    cause = f"server error {status}" if status else type(error.__cause__ or error).__name__
    return Network(
        f"{what}: no usable answer from the Hub ({cause}); check the connection and "
        "run the same command again, what is complete is kept"
    )
