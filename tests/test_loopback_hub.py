"""The unmodified Hub clients work through the loopback hub, and fail as they would elsewhere."""

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import datasets
import httpx2
import pytest
from huggingface_hub import HfApi, HfFileSystem, get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from loopback_hub import Fault, Hub, Repo
from loopback_hub.publish import (
    CONVERTED,
    END_OF_TEXT,
    byte_level_tokenizer,
    parquet_bytes,
    publish_dataset,
    publish_tokenizer,
)
from loopback_hub.wire import byte_span

CHUNK = 10 * 1024 * 1024  # huggingface_hub writes, and so resumes, whole chunks of this size
WEB = "acme/web"


def documents(first: int, count: int) -> list[dict[str, object]]:
    return [
        {"id": k, "text": f"document {k} " + "lorem " * (k % 5)}
        for k in range(first, first + count)
    ]


@pytest.fixture
def web(hub: Hub) -> Repo:
    configs = {
        "default": {"train": [documents(0, 30), documents(30, 30)], "test": [documents(60, 5)]},
        "extra": {"train": [documents(100, 7)]},
    }
    return publish_dataset(hub, WEB, configs, converted=True)


@pytest.fixture
def api(hub: Hub) -> HfApi:
    return HfApi()


def download(
    filename: str,
    repo_id: str = WEB,
    revision: str | None = None,
    token: str | bool | None = None,
) -> bytes:
    path = hf_hub_download(repo_id, filename, repo_type="dataset", revision=revision, token=token)
    return Path(path).read_bytes()


# ---------------------------------------------------------------- revisions and listings


def test_a_branch_a_tag_and_an_abbreviated_id_resolve_to_the_commit_id(
    web: Repo, api: HfApi
) -> None:
    old = web.sha
    web.tag("v1")
    new = web.edit({"notes.txt": b"new"})
    assert old != new
    revisions = {"main": new, "v1": old, old[:8]: old, old: old, "refs/heads/main": new}
    assert {r: api.dataset_info(WEB, revision=r).sha for r in revisions} == revisions


def test_dataset_info_gives_every_file_its_size_and_hash(web: Repo, api: HfApi) -> None:
    siblings = api.dataset_info(WEB, revision=web.sha, files_metadata=True).siblings or []
    assert {s.rfilename: s.size for s in siblings} == {p: b.size for p, b in web.tree().items()}
    hashes = {s.rfilename: s.lfs.sha256 for s in siblings if s.lfs is not None}
    assert all(hashlib.sha256(web.file(path)).hexdigest() == sha for path, sha in hashes.items())
    small = {s.rfilename: s.blob_id for s in siblings if s.lfs is None}
    readme = web.file("README.md")
    assert small == {"README.md": hashlib.sha1(b"blob %d\0" % len(readme) + readme).hexdigest()}


def test_dataset_info_gives_the_card(web: Repo, api: HfApi) -> None:
    card = api.dataset_info(WEB).card_data
    assert card is not None
    assert [config["config_name"] for config in card["configs"]] == ["default", "extra"]


def test_a_listing_comes_in_pages_and_in_full(hub: Hub, web: Repo, api: HfApi) -> None:
    hub.page_size = 2
    assert sorted(api.list_repo_files(WEB, repo_type="dataset")) == sorted(web.tree())
    assert len(hub.journal.matching("/tree/")) > 2


def test_a_folder_and_named_paths_can_be_listed_alone(web: Repo, api: HfApi) -> None:
    folder = api.list_repo_tree(WEB, "extra", repo_type="dataset")
    assert [entry.path for entry in folder] == ["extra/train-00000-of-00001.parquet"]
    found = api.get_paths_info(WEB, ["README.md", "extra", "absent"], repo_type="dataset")
    assert [type(entry).__name__ for entry in found] == ["RepoFile", "RepoFolder"]
    with pytest.raises(EntryNotFoundError):
        list(api.list_repo_tree(WEB, "absent", repo_type="dataset"))


def test_the_converted_branch_is_a_revision_like_any_other(web: Repo, api: HfApi) -> None:
    refs = api.list_repo_refs(WEB, repo_type="dataset")
    assert [(ref.ref, ref.target_commit) for ref in refs.converts] == [
        (CONVERTED, web.resolve(CONVERTED))
    ]
    names = api.list_repo_files(WEB, repo_type="dataset", revision=CONVERTED)
    assert sorted(names) == sorted(web.tree(CONVERTED))
    assert download(names[0], revision=CONVERTED) == web.file(names[0], CONVERTED)


def test_equal_repositories_get_equal_commit_ids(hub: Hub) -> None:
    ids = []
    for _ in range(2):
        hub.reset()
        ids.append(publish_dataset(hub, WEB, {"default": {"train": [documents(0, 3)]}}).sha)
    assert ids[0] == ids[1]


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["README.md", "extra/train-00000-of-00001.parquet"])
def test_a_file_arrives_once_and_is_then_read_from_the_cache(
    hub: Hub, web: Repo, name: str
) -> None:
    assert download(name, revision=web.sha) == web.file(name)
    asked = len(hub.journal)
    assert download(name, revision=web.sha) == web.file(name)
    assert len(hub.journal) == asked


def test_large_files_come_from_another_host_without_the_token(hub: Hub) -> None:
    repo = publish_dataset(
        hub, WEB, {"default": {"train": [documents(0, 3)]}}, readers=("hf_reader",)
    )
    name = "default/train-00000-of-00001.parquet"
    assert download(name, token="hf_reader") == repo.file(name)
    assert {e.authorized for e in hub.journal.matching("/resolve/")} == {True}
    assert {e.authorized for e in hub.journal.matching("/cdn/")} == {False}


def test_metadata_names_the_commit_and_the_hash(web: Repo) -> None:
    name = "extra/train-00000-of-00001.parquet"
    found = get_hf_file_metadata(hf_hub_url(WEB, name, repo_type="dataset", revision="main"))
    blob = web.tree()[name]
    assert (found.commit_hash, found.etag, found.size) == (web.sha, blob.sha256, blob.size)


def test_a_range_reads_only_its_bytes(hub: Hub) -> None:
    data = bytes(range(256)) * 4096
    hub.repo("dataset", WEB).commit({"a.bin": data})
    with HfFileSystem().open(f"datasets/{WEB}/a.bin", cache_type="none") as file:
        file.seek(1000)
        assert file.read(500) == data[1000:1500]
    ranged = hub.journal.matching("/resolve/", "GET") + hub.journal.matching("/cdn/", "GET")
    assert sum(entry.sent for entry in ranged) == 500


def test_byte_spans_follow_the_header() -> None:
    spans = {"bytes=2-4": range(2, 5), "bytes=7-": range(7, 10), "bytes=-3": range(7, 10)}
    spans |= {"bytes=8-99": range(8, 10), "bytes=-99": range(10)}
    assert {header: byte_span(header, 10) for header in spans} == spans
    assert [byte_span(header, 10) for header in (None, "bytes=-", "rows=1-2")] == [None] * 3
    assert byte_span("bytes=10-", 10) == range(10, 10)


def test_a_range_past_the_end_is_refused(hub: Hub) -> None:
    hub.repo("model", "acme/m").commit({"a.txt": b"short"})
    url = f"{hub.url}/acme/m/resolve/main/a.txt"
    answer = httpx2.get(url, headers={"Range": "bytes=5-"})
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, "bytes */5")


# ---------------------------------------------------------------- what does not exist or is closed


def test_what_is_missing_has_its_own_error(web: Repo, api: HfApi) -> None:
    with pytest.raises(RepositoryNotFoundError):
        api.dataset_info("acme/absent")
    with pytest.raises(RepositoryNotFoundError):
        api.model_info(WEB)  # a data set is no model
    with pytest.raises(RevisionNotFoundError):
        api.dataset_info(WEB, revision="v9")
    with pytest.raises(EntryNotFoundError):
        download("absent.txt")


@pytest.mark.parametrize(("token", "status"), [(False, 401), ("hf_stranger", 403)])
def test_files_of_a_gated_repository_need_a_reader(
    hub: Hub, api: HfApi, token: str | bool, status: int
) -> None:
    hub.tokens.add("hf_stranger")
    repo = hub.repo("dataset", "acme/gated", gated=True, readers=("hf_reader",))
    repo.commit({"a.txt": b"closed"})
    assert api.dataset_info("acme/gated", token=token).gated == "auto"
    with pytest.raises(GatedRepoError) as caught:
        download("a.txt", "acme/gated", token=token)
    assert caught.value.response.status_code == status
    with pytest.raises(GatedRepoError):
        api.auth_check("acme/gated", repo_type="dataset", token=token)
    assert download("a.txt", "acme/gated", token="hf_reader") == b"closed"


def test_a_private_repository_is_missing_for_all_but_its_readers(hub: Hub, api: HfApi) -> None:
    hub.tokens.add("hf_stranger")
    repo = hub.repo("dataset", "acme/private", private=True, readers=("hf_reader",))
    sha = repo.commit({"a.txt": b"hidden"})
    assert api.dataset_info("acme/private", token="hf_reader").sha == sha
    tokens: list[str | bool] = [False, "hf_stranger"]
    for token in tokens:
        with pytest.raises(RepositoryNotFoundError):
            api.dataset_info("acme/private", token=token)


def test_an_unknown_token_is_refused_everywhere(web: Repo, api: HfApi) -> None:
    with pytest.raises(HfHubHTTPError, match="Invalid credentials"):
        api.dataset_info(WEB, token="hf_expired")


# ---------------------------------------------------------------- faults


@pytest.fixture(scope="module")
def big() -> bytes:
    return hashlib.shake_256(b"big").digest(CHUNK + 2_000_000)


def test_a_cut_download_goes_on_from_its_last_whole_chunk(hub: Hub, big: bytes) -> None:
    hub.repo("dataset", "acme/big").commit({"a.bin": big})
    hub.fault("/cdn/", method="GET", cut_after=CHUNK + 1_000_000)
    assert download("a.bin", "acme/big") == big
    gets = hub.journal.matching("/cdn/", "GET")
    assert [(e.range, e.status, e.sent) for e in gets] == [
        (None, 200, CHUNK + 1_000_000),
        (f"bytes={CHUNK}-", 206, len(big) - CHUNK),
    ]


def test_a_hub_that_ignores_the_range_sends_the_file_again(hub: Hub, big: bytes) -> None:
    hub.repo("dataset", "acme/big").commit({"a.bin": big})
    hub.fault("/cdn/", method="GET", cut_after=CHUNK + 1_000_000)
    hub.fault("/cdn/", method="GET", ignore_range=True)
    assert download("a.bin", "acme/big") == big
    assert [e.status for e in hub.journal.matching("/cdn/", "GET")] == [200, 200]


def test_a_reset_in_the_body_reaches_the_caller(hub: Hub, web: Repo) -> None:
    hub.fault("README.md", method="GET", cut_after=10, reset=True)
    with pytest.raises(httpx2.ReadError):
        download("README.md")
    assert download("README.md") == web.file("README.md")


def test_a_reset_before_the_answer_reaches_the_caller(hub: Hub, web: Repo, api: HfApi) -> None:
    hub.fault("/api/datasets", reset=True)
    with pytest.raises(httpx2.TransportError):
        api.dataset_info(WEB)
    assert api.dataset_info(WEB).sha == web.sha
    assert [entry.status for entry in hub.journal] == [0, 200]


def test_a_status_fault_comes_with_its_headers(hub: Hub, web: Repo, api: HfApi) -> None:
    fault = hub.fault("/api/datasets", status=503, headers={"Retry-After": "7"}, skip=1)
    assert api.dataset_info(WEB).sha == web.sha
    assert fault.times == 1
    with pytest.raises(HfHubHTTPError) as caught:
        api.dataset_info(WEB)
    assert caught.value.response.headers["Retry-After"] == "7"
    assert fault.times == 0


def test_the_client_waits_out_a_rate_limit(hub: Hub, web: Repo) -> None:
    hub.fault("README.md", method="GET", status=429, headers={"Retry-After": "0"})
    assert download("README.md") == web.file("README.md")
    assert [e.status for e in hub.journal.matching("README.md", "GET")] == [429, 200]


def test_wrong_bytes_of_the_right_size_are_not_noticed_by_the_client(hub: Hub, web: Repo) -> None:
    name = "extra/train-00000-of-00001.parquet"
    hub.fault("/cdn/", method="GET", corrupt=True)
    got = download(name)
    assert got != web.file(name)
    assert len(got) == len(web.file(name))


def test_a_delay_outlasts_a_timeout(hub: Hub, web: Repo, api: HfApi) -> None:
    hub.fault("/api/datasets", delay=0.3)
    with pytest.raises(httpx2.TimeoutException):
        api.dataset_info(WEB, timeout=0.1)


@pytest.mark.parametrize(
    "effect", [{}, {"status": 503, "corrupt": True}, {"reset": True, "status": 1}]
)
def test_a_fault_has_exactly_one_effect(effect: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="effect"):
        Fault(**effect)  # type: ignore[arg-type]


# ---------------------------------------------------------------- datasets and transformers


def test_load_dataset_reads_the_config_of_a_pinned_revision(hub: Hub, web: Repo) -> None:
    pinned = web.sha
    web.edit({"extra/train-00000-of-00001.parquet": parquet_bytes(documents(0, 1))})
    splits = datasets.load_dataset(WEB, revision=pinned)
    assert {split: rows["id"][:] for split, rows in splits.items()} == {
        "train": list(range(60)),
        "test": list(range(60, 65)),
    }
    extra = datasets.load_dataset(WEB, "extra", split="train", revision=pinned)
    assert extra["id"][:] == list(range(100, 107))


def test_streaming_reads_no_further_than_one_row_group_ahead(hub: Hub) -> None:
    files = [documents(first, 30) for first in range(0, 120, 30)]  # one row group each
    repo = publish_dataset(hub, WEB, {"default": {"train": files}})
    stream = datasets.load_dataset(WEB, split="train", streaming=True, revision=repo.sha)
    assert list(stream.take(3)) == files[0][:3]
    large = [blob for blob in repo.tree().values() if blob.lfs]
    assert [hub.journal.bytes_sent(blob.sha256) > 0 for blob in large] == [True, True, False, False]


def test_builder_info_tells_the_sizes_of_the_card_without_reading_data(hub: Hub, web: Repo) -> None:
    info = datasets.load_dataset_builder(WEB, "default", revision=web.sha).info
    files = [blob for path, blob in web.tree().items() if path.startswith("default/")]
    assert info.download_size == sum(blob.size for blob in files)
    assert {name: split.num_examples for name, split in info.splits.items()} == {
        "train": 60,
        "test": 5,
    }
    assert hub.journal.bytes_sent("/cdn/") == 0


def test_a_card_may_leave_out_its_sizes_and_its_configs(hub: Hub) -> None:
    configs = {"default": {"train": [documents(0, 3)]}}
    bare = publish_dataset(hub, WEB, configs, sizes=False, front_matter={"configs": None})
    assert bare.card_data(bare.sha) == {}
    assert datasets.load_dataset_builder(WEB, revision=bare.sha).info.download_size is None


def test_gated_data_is_refused_by_datasets(hub: Hub) -> None:
    configs = {"default": {"train": [documents(0, 3)]}}
    repo = publish_dataset(hub, "acme/gated", configs, gated=True, readers=("hf_reader",))
    with pytest.raises(datasets.exceptions.DatasetNotFoundError, match="gated"):
        datasets.load_dataset("acme/gated", split="train", revision=repo.sha)
    rows = datasets.load_dataset("acme/gated", split="train", revision=repo.sha, token="hf_reader")
    assert len(rows) == 3


def test_auto_tokenizer_loads_a_pinned_tokenizer(hub: Hub) -> None:
    from transformers import AutoTokenizer

    repo = publish_tokenizer(hub, "acme/tok", byte_level_tokenizer(["hello world"] * 5))
    pinned = repo.sha
    repo.edit({"tokenizer.json": b"{}"})
    tokenizer = AutoTokenizer.from_pretrained("acme/tok", revision=pinned)
    assert tokenizer.is_fast
    assert tokenizer.eos_token == END_OF_TEXT
    assert tokenizer.decode(tokenizer("hello world")["input_ids"]) == "hello world"


# ---------------------------------------------------------------- the world of the tests


def test_a_subprocess_talks_to_the_same_hub(hub: Hub, web: Repo) -> None:
    program = (
        "import json, huggingface_hub as h; "
        f"print(json.dumps([h.dataset_info({WEB!r}).sha, h.constants.HF_HOME]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [web.sha, os.environ["HF_HOME"]]
    assert [entry.method for entry in hub.journal] == ["GET"]


@pytest.mark.parametrize("turn", ["first", "second"])
def test_every_test_begins_with_an_empty_hub_and_an_empty_cache(hub: Hub, turn: str) -> None:
    assert (hub.repos, len(hub.journal)) == ({}, 0)
    hub.repo("dataset", WEB).commit({"a.txt": b"same content, same commit id"})
    assert download("a.txt") == b"same content, same commit id"
    assert HfFileSystem().ls(f"datasets/{WEB}", detail=False) == [f"datasets/{WEB}/a.txt"]
    assert {entry.method for entry in hub.journal.matching("a.txt")} == {"HEAD", "GET"}


def test_no_other_network_can_be_reached() -> None:
    with pytest.raises(ConnectionRefusedError, match="no network"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    with pytest.raises(socket.gaierror, match="no network"):
        socket.create_connection(("huggingface.co", 443), timeout=1)
