"""Repositories of the Hub: pinned listings, verified files, access."""

import hashlib

import pytest
from hub_world import FIRST, QUICK, TOKEN, fetch, listing, publish
from loopback_hub import Hub
from loopback_hub.publish import CONVERTED, publish_tokenizer

from pipeline_lib.hub import client
from pipeline_lib.hub.refusals import DamagedDownload, Gated, NoAccess, NotFound, RevisionNotFound


def test_a_branch_is_resolved_to_a_commit_with_files_hashes_and_the_card(hub: Hub) -> None:
    publish(hub)
    found = listing(revision="main")
    assert found.commit == hub.repos["dataset", "acme/chat"].sha
    assert client.train_files(found) == (
        FIRST,
        "default/train-00001-of-00002.parquet",
    )
    data = hub.repos["dataset", "acme/chat"].file(FIRST)
    entry = found.file(FIRST)
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
    path = client.fetch_file(known, FIRST, retries=QUICK)
    before = len(hub.journal)
    again = client.fetch_file(known, FIRST, retries=QUICK)
    assert again == path and len(hub.journal) == before


def test_wrong_bytes_of_the_right_size_are_fetched_again(hub: Hub) -> None:
    publish(hub)
    hub.fault("/cdn/", corrupt=True)
    data = hub.repos["dataset", "acme/chat"].file(FIRST)
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


def test_a_token_without_access_is_told_apart_and_never_shown(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, gated=True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.tokens.add(TOKEN)
    with pytest.raises(NoAccess, match="token in use has no access") as caught:
        client.check_access(listing(), retries=QUICK)
    assert TOKEN not in str(caught.value)


def test_a_token_with_access_opens_a_gated_repository(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, gated=True, readers=(TOKEN,))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    client.check_access(listing(), retries=QUICK)
    assert fetch().stat().st_size > 100


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
