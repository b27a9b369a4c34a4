"""Our side of the Hub: pinned listings, verified files, named refusals, bounded patience."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_hub import Hub
from loopback_hub.publish import CONVERTED, publish_dataset, publish_tokenizer

from pipeline_lib.errors import HubError
from pipeline_lib.hub import client as client
from pipeline_lib.hub.footers import remote_footer
from pipeline_lib.hub.retry import (
    DamagedDownload,
    Gated,
    Network,
    NoAccess,
    NotFound,
    RateLimited,
    RetryPolicy,
    RevisionNotFound,
    with_retries,
)

QUICK = RetryPolicy(tries=3, first_pause=0.01, longest_pause=2.0)
ROWS = [{"text": f"Row {n}."} for n in range(50)]


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    yield "hf_secretsecret"


def listing(repo: str = "acme/chat", revision: str | None = None) -> client.RepoListing:
    return client.resolve_revision(repo, revision, retries=QUICK)


def fetch(repo: str = "acme/chat", path: str = "default/train-00000-of-00002.parquet") -> Path:
    return client.fetch_file(listing(repo), path, retries=QUICK)


def publish(hub: Hub, **more: object) -> None:
    publish_dataset(hub, "acme/chat", {"default": {"train": [ROWS, ROWS]}}, **more)  # type: ignore[arg-type]


def test_a_branch_is_resolved_to_a_commit_with_files_hashes_and_the_card(hub: Hub) -> None:
    publish(hub)
    found = listing(revision="main")
    assert found.commit == hub.repos["dataset", "acme/chat"].sha
    assert client.train_files(found) == (
        "default/train-00000-of-00002.parquet",
        "default/train-00001-of-00002.parquet",
    )
    data = hub.repos["dataset", "acme/chat"].file("default/train-00000-of-00002.parquet")
    entry = found.file("default/train-00000-of-00002.parquet")
    assert (entry.size, entry.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert found.card["configs"][0]["config_name"] == "default"


def test_the_card_is_that_of_the_pinned_revision(hub: Hub) -> None:
    publish(hub)
    repo = hub.repos["dataset", "acme/chat"]
    old = repo.sha
    repo.edit({"README.md": b"---\nconfigs: []\n---\n"})
    assert listing(revision=old).card["configs"]
    assert listing(revision="main").card["configs"] == []


def test_a_model_repository_is_listed_too(hub: Hub) -> None:
    publish_tokenizer(hub, "acme/tok")
    found = client.resolve_revision("acme/tok", kind="model", retries=QUICK)
    assert found.file("tokenizer.json").blob_id
    assert client.fetch_file(found, "tokenizer.json", retries=QUICK).read_bytes()[:1] == b"{"


def test_the_converted_branch_is_a_revision_like_others(hub: Hub) -> None:
    publish(hub, converted=True)
    found = listing(revision=CONVERTED)
    assert client.converted_files(found, "default", "train") == (
        "default/train/0000.parquet",
        "default/train/0001.parquet",
    )


def test_a_file_already_in_the_cache_costs_no_request(hub: Hub) -> None:
    publish(hub)
    known = listing()
    path = client.fetch_file(known, "default/train-00000-of-00002.parquet", retries=QUICK)
    before = len(hub.journal)
    again = client.fetch_file(known, "default/train-00000-of-00002.parquet", retries=QUICK)
    assert again == path and len(hub.journal) == before


def test_wrong_bytes_of_the_right_size_are_fetched_again(hub: Hub) -> None:
    publish(hub)
    hub.fault("/cdn/", corrupt=True)
    data = hub.repos["dataset", "acme/chat"].file("default/train-00000-of-00002.parquet")
    assert fetch().read_bytes() == data


def test_a_small_file_is_compared_with_its_git_blob_id(hub: Hub) -> None:
    publish(hub)
    hub.fault("README.md", method="GET", corrupt=True)
    assert listing().card["configs"]


def test_bytes_that_are_wrong_twice_are_an_error_and_do_not_stay_in_the_cache(hub: Hub) -> None:
    publish(hub)
    hub.fault("/cdn/", corrupt=True, times=2)
    with pytest.raises(DamagedDownload, match="damaged twice"):
        fetch()
    assert fetch().read_bytes()[:4] == b"PAR1"


def test_a_file_changed_in_the_cache_is_noticed(hub: Hub) -> None:
    publish(hub)
    path = fetch()
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    blob = path.resolve()
    blob.chmod(0o644)
    blob.write_bytes(data)
    assert fetch().read_bytes() != bytes(data)


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


def test_waiting_is_told_to_the_caller_and_honours_retry_after(hub: Hub) -> None:
    publish(hub)
    hub.fault("/api/datasets/", status=429, headers={"Retry-After": "1"})
    told: list[float] = []
    client.resolve_revision("acme/chat", retries=QUICK, on_wait=lambda s, why: told.append(s))
    assert told == [1.0]


def test_what_does_not_exist_is_told_apart(hub: Hub) -> None:
    publish(hub)
    with pytest.raises(NotFound, match=r"acme/nothing was not found .* HF_TOKEN if it is private"):
        listing("acme/nothing")
    with pytest.raises(RevisionNotFound, match="revision 'v9'"):
        listing(revision="v9")
    with pytest.raises(NotFound, match=r"has no file x.parquet"):
        client.fetch_file(listing(), "x.parquet")


def test_a_gated_repository_without_a_token_says_what_to_do(hub: Hub) -> None:
    publish(hub, gated=True)
    found = listing()
    assert found.gated and found.card["configs"]
    with pytest.raises(Gated, match=r"accept the terms .* HF_TOKEN"):
        client.check_access(found, retries=QUICK)
    with pytest.raises(Gated):
        fetch()


def test_a_token_without_access_is_told_apart_and_never_shown(hub: Hub, token: str) -> None:
    publish(hub, gated=True)
    hub.tokens.add(token)
    with pytest.raises(NoAccess, match="token in use has no access") as caught:
        client.check_access(listing(), retries=QUICK)
    assert token not in str(caught.value)


def test_a_token_with_access_opens_a_gated_repository(hub: Hub, token: str) -> None:
    publish(hub, gated=True, readers=(token,))
    client.check_access(listing(), retries=QUICK)
    assert fetch().stat().st_size > 100


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


def test_a_file_is_read_in_blocks_as_they_are_asked_for_and_goes_on_after_a_fault(hub: Hub) -> None:
    repo = hub.repo("dataset", "acme/lines")
    repo.lfs_patterns += ("*.jsonl",)
    repo.commit({"a.jsonl": bytes(range(256)) * 40, "none.jsonl": b""})
    known = listing("acme/lines")
    blocks = client.remote_blocks(known, "a.jsonl", block_bytes=4_000, retries=QUICK)
    first = next(blocks)
    assert len(first) == 4_000 == hub.journal.bytes_sent("/cdn/")
    hub.fault("/cdn/", cut_after=100)
    assert b"".join([first, *blocks]) == repo.file("a.jsonl")
    assert list(client.remote_blocks(known, "none.jsonl", retries=QUICK)) == []


def test_a_footer_is_read_without_the_data(hub: Hub) -> None:
    rows = [{"text": os.urandom(200).hex()} for _ in range(2000)]
    publish_dataset(hub, "acme/big", {"default": {"train": [rows]}})
    known = listing("acme/big")
    hub.journal.clear()
    footer = remote_footer(known, "default/train-00000-of-00001.parquet", retries=QUICK)
    assert footer.rows == 2000
    assert 0.9 < footer.arrow_bytes / (2000 * 404) < 1.1
    assert footer.leaves == {"text": footer.arrow_bytes}
    assert hub.journal.bytes_sent("/cdn/") < 200_000
