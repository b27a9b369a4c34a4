"""Errors of the Hub: one class for each kind of refusal, and the rules that choose it.

The Hub clients raise the same error for many causes. The rules here look at the answer inside that
error and name its cause. Their texts never repeat a message of a client, because such a message may
hold a token or a signed address.
"""

import contextlib
import errno
import importlib
import re

from pipeline_lib.errors import DamagedFile, HubError

_LOCAL_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM, errno.EMFILE)


class Gated(HubError):
    """The repository asks for accepted terms and no token was sent."""


class NoAccess(HubError):
    """A token was sent and it does not open the repository."""


class NotFound(HubError):
    """There is no such repository or file, or it is private and no token was sent."""


class RevisionNotFound(HubError):
    """The repository exists, the revision does not."""


class PassingFault(HubError):
    """A fault that may pass by itself. ``asked_pause``: seconds that the server asked to wait."""

    def __init__(self, message: str, asked_pause: float = 0.0) -> None:
        super().__init__(message)
        self.asked_pause = asked_pause


class RateLimited(PassingFault):
    """The Hub counted too many requests."""


class Network(PassingFault):
    """There was no answer, or a server error."""


class DamagedDownload(DamagedFile, HubError):
    """The bytes of a file differed from the Hub's hash two times."""


def transport_errors() -> tuple[type[Exception], ...]:
    """The errors of a broken connection, for the HTTP libraries that are installed."""
    from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError

    kinds: list[type[Exception]] = [OSError, EntryNotFoundError, RevisionNotFoundError]
    for name in ("httpx", "httpx2"):
        with contextlib.suppress(ModuleNotFoundError):
            kinds.append(importlib.import_module(name).TransportError)
    return tuple(kinds)


def refusal(subject: str, raised: Exception) -> Exception:
    """The error that names the Hub's answer and says how to go on.

    ``subject`` names the repository or file in the text. A fault of the local disk is returned
    unchanged.
    """
    answer = _answer_in(raised)
    return (
        _gated(subject, answer)
        or _absent(subject, raised, answer)
        or _refused(subject, answer)
        or _no_answer(subject, raised, _status(answer))
    )


def _answer_in(error: BaseException) -> BaseException:
    """The error that holds the Hub's answer; a client may have wrapped it in another one."""
    seen: BaseException | None = error
    while seen is not None:
        if _status(seen) is not None:
            return seen
        seen = seen.__cause__ or seen.__context__
    return error


def _status(error: BaseException) -> int | None:
    """The HTTP status of the answer."""
    response = getattr(error, "response", None)
    return getattr(response, "status_code", None)


def _asked_pause(error: BaseException) -> float:
    """Seconds that the server asked for in ``Retry-After`` or ``RateLimit``; 0 without either."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    value = str(headers.get("Retry-After", "")).strip()
    if value.isdigit():
        return float(value)
    window = re.search(r"\bt=(\d+)", str(headers.get("RateLimit", "")))
    return float(window.group(1)) if window and _status(error) == 429 else 0.0


def _has_token() -> bool:
    from huggingface_hub import get_token

    return get_token() is not None


def _gated(subject: str, answer: BaseException) -> HubError | None:
    from huggingface_hub.errors import GatedRepoError

    if not isinstance(answer, GatedRepoError):
        return None
    if _has_token():
        return NoAccess(
            f"{subject} is gated and the token in use has no access ({_status(answer)}); accept "
            "the terms on its page on the Hub (approval may take time) or use another account's "
            "token"
        )
    return Gated(
        f"{subject} is gated; accept the terms on its page on the Hub, then set HF_TOKEN or run "
        "`hf auth login`"
    )


def _absent(subject: str, raised: Exception, answer: BaseException) -> HubError | None:
    from huggingface_hub import errors

    if isinstance(answer, errors.RevisionNotFoundError):
        return RevisionNotFound(f"{subject}: the Hub knows no such revision; check its spelling")
    absent = (errors.RepositoryNotFoundError, errors.EntryNotFoundError)
    if isinstance(answer, absent) and not isinstance(answer, errors.LocalEntryNotFoundError):
        hint = "" if _has_token() else ", or set HF_TOKEN if it is private"
        return NotFound(f"{subject} was not found on the Hub; check the name{hint}")
    asked_locally = isinstance(raised, FileNotFoundError) and not _status(answer)
    if asked_locally and not isinstance(raised, errors.LocalEntryNotFoundError):
        return NotFound(f"{subject}: no data files were found there; check config, split and path")
    return None


def _refused(subject: str, answer: BaseException) -> HubError | None:
    status = _status(answer)
    if status in (401, 403):
        return NoAccess(f"{subject}: the Hub refused the token ({status}); renew or unset HF_TOKEN")
    if status != 429:
        return None
    pause = _asked_pause(answer)
    later = f"in {pause:.0f} s" if pause else "later"
    hint = "" if _has_token() else "; a token (HF_TOKEN) raises the limit"
    text = f"{subject}: rate limit of the Hub reached (429); try {later}{hint}"
    return RateLimited(text, pause)


def _no_answer(subject: str, raised: Exception, status: int | None) -> Exception:
    from huggingface_hub.errors import OfflineModeIsEnabled

    if any(isinstance(error, OfflineModeIsEnabled) for error in (raised, raised.__cause__)):
        return HubError(f"{subject}: HF_HUB_OFFLINE is set and it is not in the cache; unset it")
    if isinstance(raised, OSError) and raised.errno in _LOCAL_FAULTS:
        return raised
    if status is not None and status < 500:
        return HubError(f"{subject}: the Hub answered {status}; expected the data")
    cause = f"server error {status}" if status else type(raised.__cause__ or raised).__name__
    return Network(
        f"{subject}: no usable answer from the Hub ({cause}); check the connection and run the "
        "same command again; complete files are kept",
        _asked_pause(_answer_in(raised)),
    )
