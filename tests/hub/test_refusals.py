"""Each kind of answer has an error of its own, which says how to go on."""

import pickle

import pytest
from hub_world import TOKEN, listing, publish
from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled
from loopback_hub import Hub

from pipeline_lib.errors import DamagedFile, HubError, PipelineError
from pipeline_lib.hub import refusals
from pipeline_lib.hub.refusals import (
    DamagedDownload,
    Network,
    NoAccess,
    NotFound,
    PassingFault,
    RateLimited,
    refusal,
)


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (403, NoAccess, r"the Hub refused the token \(403\); renew or unset HF_TOKEN"),
        (418, HubError, "the Hub answered 418; expected the data"),
        (502, Network, r"no usable answer from the Hub \(server error 502\); check the connection"),
    ],
)
def test_a_status_is_named_and_the_remedy_with_it(
    hub: Hub, status: int, kind: type[HubError], says: str
) -> None:
    publish(hub)
    hub.fault("/api/datasets/", status=status, times=9)
    with pytest.raises(kind, match=f"dataset acme/chat: {says}"):
        listing()


@pytest.mark.parametrize("has_token", [False, True])
def test_a_rate_limit_tells_of_a_token_only_those_who_have_none(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, has_token: bool
) -> None:
    publish(hub, readers=(TOKEN,))
    if has_token:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.fault("/api/datasets/", status=429, headers={"RateLimit": '"api";r=0;t=900'}, times=9)
    with pytest.raises(RateLimited, match="in 900 s") as caught:
        listing()
    assert ("HF_TOKEN" in str(caught.value)) is not has_token
    assert caught.value.asked_pause == 900


def test_offline_mode_is_told_from_a_broken_connection() -> None:
    cause = OfflineModeIsEnabled("offline")
    wrapped = LocalEntryNotFoundError("not cached")
    wrapped.__cause__ = cause
    for raised in (cause, wrapped):
        found = refusal("x", raised)
        assert "HF_HUB_OFFLINE is set" in str(found) and not isinstance(found, PassingFault)
    assert isinstance(refusal("x", LocalEntryNotFoundError("not cached")), Network)


def test_files_that_a_pattern_does_not_find_are_not_found() -> None:
    assert isinstance(refusal("x", FileNotFoundError("no data")), NotFound)


def test_a_fault_of_the_local_disk_stays_as_it_is() -> None:
    full = OSError(28, "No space left on device")
    assert refusal("x", full) is full


def test_all_refusals_are_errors_of_the_hub_and_documented() -> None:
    kinds = [kind for kind in vars(refusals).values() if isinstance(kind, type)]
    ours = [kind for kind in kinds if issubclass(kind, PipelineError) and kind is not DamagedFile]
    assert len(ours) == 9 and all(issubclass(kind, HubError) and kind.__doc__ for kind in ours)
    assert issubclass(DamagedDownload, DamagedFile)


def test_the_asked_pause_survives_the_way_from_another_process() -> None:
    copied = pickle.loads(pickle.dumps(RateLimited("text", 7.0)))
    assert (str(copied), copied.asked_pause) == ("text", 7.0)
