"""The outcome of each data set: every kind of failure has a status, and stops no other."""

from pathlib import Path

import pyarrow as pa
import pytest
from download_world import by_name, get_all, publish, spec, texts
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

from pipeline_lib.downloads.outcomes import Outcome, Status, attempt
from pipeline_lib.errors import DamagedFile, SourceError


def test_one_source_that_fails_stops_no_other_and_each_says_why(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts("a"))
    publish_dataset(hub, "acme/gated", {"default": {"train": [texts("a")]}}, gated=True)
    publish_dataset(hub, "acme/renamed", {"default": {"train": [pa.table({"t": ["a"]})]}})
    publish_dataset(hub, "acme/down", {"default": {"train": [texts("a")]}})
    publish_dataset(hub, "acme/busy", {"default": {"train": [texts("a")]}})
    hub.repo("dataset", "acme/broken").commit({"train.json": b'[{"text": "a"}, {"te'})
    hub.fault("/api/datasets/acme/down", status=503, times=99)
    hub.fault("/api/datasets/acme/busy", status=429, headers={"Retry-After": "999"}, times=99)
    names = ("gated", "missing", "renamed", "down", "busy", "broken")
    kinds = {name: spec(path=f"acme/{name}") for name in names}
    outcomes = get_all(tmp_path, **kinds, chat=spec())
    assert by_name(outcomes.values()) == {
        "gated": Status.GATED,
        "missing": Status.NOT_FOUND,
        "renamed": Status.COLUMNS,
        "down": Status.NETWORK,
        "busy": Status.RATE_LIMITED,
        "broken": Status.FAILED,
        "chat": Status.DONE,
    }
    assert all(outcome.detail or outcome.status.good for outcome in outcomes.values())
    assert "acme/broken" in outcomes["broken"].detail
    assert [name for name in kinds if (tmp_path / name).exists()] == []


def test_a_token_without_access_has_a_status_of_its_own(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    hub.tokens.add("hf_secretsecret")
    publish(hub, texts("a"), gated=True)
    outcome = get_all(tmp_path, chat=spec())["chat"]
    assert outcome.status is Status.NO_ACCESS and "hf_secretsecret" not in str(outcome)


def failing(error: BaseException) -> Outcome:
    raise error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DamagedFile("a\nb"), Status.DAMAGED),
        (SourceError("a\nb"), Status.FAILED),
        (OSError("a\nb"), Status.FAILED),
    ],
)
def test_an_error_becomes_one_line(error: Exception, status: Status) -> None:
    outcome = attempt("chat", lambda: failing(error))
    assert (outcome.status, outcome.detail) == (status, "a b")
    assert str(outcome).startswith("chat ") and str(outcome).endswith("a b")


def test_a_mistake_in_the_code_is_not_taken_for_an_outcome() -> None:
    with pytest.raises(KeyError):
        attempt("chat", lambda: failing(KeyError("x")))
