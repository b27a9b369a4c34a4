"""The registry, the command line, and fetching through the real clients."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from loopback_hub import Hub
from loopback_hub.publish import parquet_bytes, publish_dataset

import download_data
from download_data import DATASETS, download, main
from pipeline_lib.downloads import fetch, saved
from pipeline_lib.downloads.acquire import Outcome, Status
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.registry import ROLES, DatasetSpec, choose_datasets
from pipeline_lib.errors import ColumnError, HubError, SourceError
from pipeline_lib.hub.retry import RetryPolicy
from pipeline_lib.sampledata import make
from pipeline_lib.sampledata.schemas import SCHEMAS

QUICK = RetryPolicy(tries=2, first_pause=0.01)
ROOT = Path(download_data.__file__).parent
TEXT = {"text": pa.string()}


def source(**more: Any) -> DatasetSpec:
    chosen = {"path": "acme/chat", "role": "dialogue", "columns": TEXT} | more
    return DatasetSpec(licence="MIT", citation="none", **chosen)


def texts(*values: str) -> pa.Table:
    return pa.table({"text": pa.array(values, pa.string())})


def publish(hub: Hub, *files: pa.Table, **more: Any) -> None:
    publish_dataset(hub, "acme/chat", {"default": {"train": list(files)}}, **more)


def get(folder: Path, src: DatasetSpec, limit: int = -1, **more: Any) -> saved.Saved:
    return fetch.fetch("chat", src, folder, FetchOptions(limit=limit, retries=QUICK, **more))


def read(folder: Path) -> list[str]:
    return list(saved.load(folder / "chat")["text"])


def publish_samples(hub: Hub, *names: str) -> None:
    """The sample's rows under the true addresses, as a stand-in for the true data sets."""
    for name in names:
        known = DATASETS[name]
        table = pa.Table.from_pylist(list(make.rows_of(name)), schema=SCHEMAS[name])
        publish_dataset(
            hub, known.path, {known.config or "default": {split: [table] for split in known.splits}}
        )


def by_name(outcomes: list[Outcome]) -> dict[str, Status]:
    return {outcome.name: outcome.status for outcome in outcomes}


# ---- registry


def test_the_registry_states_role_licence_citation_and_types_of_every_source() -> None:
    for name, known in DATASETS.items():
        assert known.role in ROLES and known.licence and known.citation and known.splits, name
        assert all(isinstance(kind, pa.DataType) for kind in known.columns.values()), name
        assert "/" in known.path
    assert len(DATASETS) == 14
    assert {known.role for known in DATASETS.values()} == set(ROLES)


def test_only_open_and_permissive_sources_are_fetched_unless_named() -> None:
    enabled = choose_datasets(DATASETS, [])
    assert len(enabled) == 9
    for name, known in DATASETS.items():
        closed = known.gated or "NC" in known.licence or known.licence == "unknown"
        assert not (closed and known.enabled), name
        assert known.enabled or len(known.disabled) > 10, name
    assert list(choose_datasets(DATASETS, ["bst"])) == ["bst"]


def test_a_source_that_can_not_be_meant_is_refused() -> None:
    for wrong in ({"role": "poetry"}, {"columns": {}}, {"splits": ()}, {"max_bytes": 0}):
        with pytest.raises(ValueError, match="acme/chat"):
            source(**wrong)
    with pytest.raises(ValueError, match="needs a config name"):
        source(parquet="refs/convert/parquet")


# ---- fetching


def test_a_fetched_source_is_saved_with_its_commit_and_file_hashes(
    hub: Hub, tmp_path: Path
) -> None:
    publish(hub, texts("a", "b"), texts("c"))
    done = get(tmp_path, source())
    assert read(tmp_path) == ["a", "b", "c"]
    assert done.origin["revision"] == hub.repos["dataset", "acme/chat"].sha
    assert [len(file["sha256"]) for file in done.origin["files"]] == [64, 64]
    assert (done.origin["limit"], done.origin["licence"]) == (-1, "MIT")


def test_a_source_of_the_registry_round_trips_in_its_exact_schema(hub: Hub, tmp_path: Path) -> None:
    publish_samples(hub, "wildchat", "oasst2")
    for name in ("wildchat", "oasst2"):
        fetch.fetch(name, DATASETS[name], tmp_path, FetchOptions(retries=QUICK))
        loaded = saved.load(tmp_path / name, DATASETS[name].columns).data.table
        rows = pa.Table.from_pylist(list(make.rows_of(name)), schema=SCHEMAS[name])
        assert loaded.replace_schema_metadata(None).equals(rows)


def test_the_revision_is_pinned_and_an_older_one_can_be_named(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts("old"))
    repo = hub.repos["dataset", "acme/chat"]
    old = repo.sha
    repo.edit({"default/train-00000-of-00001.parquet": parquet_bytes(texts("new"))})
    get(tmp_path / "old", source(revision=old))
    get(tmp_path / "new", source())
    assert read(tmp_path / "old") == ["old"] and read(tmp_path / "new") == ["new"]


def test_several_splits_come_one_after_another(hub: Hub, tmp_path: Path) -> None:
    publish_dataset(
        hub, "acme/chat", {"default": {"test": [texts("t")], "train": [texts("a", "b")]}}
    )
    get(tmp_path, source(splits=("train", "test")))
    assert read(tmp_path) == ["a", "b", "t"]


def test_a_config_or_split_that_is_absent_lists_what_is_there(hub: Hub, tmp_path: Path) -> None:
    publish_dataset(
        hub, "acme/chat", {"en": {"train": [texts("a")]}, "fr": {"train": [texts("b")]}}
    )
    with pytest.raises(SourceError, match="no split test; it has train"):
        get(tmp_path, source(config="en", splits=("test",)))
    with pytest.raises(SourceError, match=r"config 'de'.*en.*fr"):
        get(tmp_path, source(config="de"))


def test_files_at_the_root_without_a_card_are_found_by_their_names(
    hub: Hub, tmp_path: Path
) -> None:
    repo = hub.repo("dataset", "acme/chat")
    repo.commit(
        {"train.parquet": parquet_bytes(texts("a")), "valid.parquet": parquet_bytes(texts("v"))}
    )
    get(tmp_path, source(splits=("train", "validation")))
    assert read(tmp_path) == ["a", "v"]


def test_the_converted_branch_is_read_where_the_registry_points_there(
    hub: Hub, tmp_path: Path
) -> None:
    publish(hub, texts("a", "b"), converted=True)
    repo = hub.repos["dataset", "acme/chat"]
    repo.edit({"default/train-00000-of-00001.parquet": None})
    pointer = source(config="default", parquet="refs/convert/parquet")
    done = get(tmp_path, pointer)
    assert read(tmp_path) == ["a", "b"]
    assert done.origin["revision"] == repo.refs["refs/convert/parquet"]


def test_a_partial_conversion_is_refused(hub: Hub, tmp_path: Path) -> None:
    repo = hub.repo("dataset", "acme/chat")
    data = parquet_bytes(texts("a"))
    repo.commit({"default/partial-train/0000.parquet": data}, ref="refs/convert/parquet")
    with pytest.raises(HubError, match="only a part of default/train"):
        get(tmp_path, source(config="default", parquet="refs/convert/parquet"))
    assert not (tmp_path / "chat").exists()


def test_a_renamed_column_stops_that_source_with_both_schemas(hub: Hub, tmp_path: Path) -> None:
    publish(hub, pa.table({"content": ["a"]}))
    with pytest.raises(ColumnError, match=r"`text` is absent, expected string.*content: string"):
        get(tmp_path, source())
    assert not (tmp_path / "chat").exists()


def test_damaged_bytes_never_reach_the_saved_copy(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts(*"abc"))
    hub.fault("/cdn/", corrupt=True)
    get(tmp_path, source())
    assert read(tmp_path) == ["a", "b", "c"]


def test_another_format_than_parquet_goes_the_same_way(hub: Hub, tmp_path: Path) -> None:
    repo = hub.repo("dataset", "acme/chat")
    lines = "".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(20))
    repo.commit({"data/train.jsonl": lines.encode()})
    get(tmp_path / "all", source())
    assert read(tmp_path / "all") == [f"row {n}" for n in range(20)]
    get(tmp_path / "some", source(), limit=5)
    assert len(read(tmp_path / "some")) == 5
    done = get(tmp_path / "first", source(streaming=True), limit=5)
    assert read(tmp_path / "first") == [f"row {n}" for n in range(5)]
    assert done.origin["limit"] == 5


def test_json_lines_may_be_packed_and_are_sampled_like_others(hub: Hub, tmp_path: Path) -> None:
    repo = hub.repo("dataset", "acme/chat")
    lines = [json.dumps({"text": f"row {n}", "more": n}).encode() + b"\n" for n in range(20)]
    packed = {f"data/train-{k}.jsonl.gz": gzip.compress(b"".join(lines[k::2])) for k in (0, 1)}
    repo.commit(packed)
    get(tmp_path / "all", source())
    assert read(tmp_path / "all") == [f"row {n}" for n in (*range(0, 20, 2), *range(1, 20, 2))]
    get(tmp_path / "some", source(), limit=5, seed=3)
    get(tmp_path / "same", source(), limit=5, seed=3)
    assert read(tmp_path / "some") == read(tmp_path / "same") and len(read(tmp_path / "some")) == 5
    get(tmp_path / "first", source(streaming=True), limit=5)
    assert read(tmp_path / "first") == [f"row {n}" for n in range(0, 10, 2)]


def test_a_table_of_text_and_a_list_of_json_go_through_the_library(
    hub: Hub, tmp_path: Path
) -> None:
    hub.repo("dataset", "acme/table").commit({"train.csv": b"text\na\nb\nc\n"})
    hub.repo("dataset", "acme/list").commit({"train.json": b'[{"text": "a"}, {"text": "b"}]'})
    get(tmp_path / "table", source(path="acme/table", streaming=True), limit=2)
    get(tmp_path / "list", source(path="acme/list"))
    assert read(tmp_path / "table") == read(tmp_path / "list") == ["a", "b"]


def test_a_file_the_library_can_not_read_is_named_and_stops_no_other(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repo("dataset", "acme/list").commit({"train.json": b'[{"text": "a"}, {"te'})
    publish(hub, texts("a"))
    monkeypatch.setitem(DATASETS, "broken", source(path="acme/list"))
    monkeypatch.setitem(DATASETS, "chat", source())
    broken, chat = download(["broken", "chat"], tmp_path)
    assert (broken.status, chat.status) == (Status.FAILED, Status.DONE)
    assert "acme/list" in broken.detail and "can not be read as json" in broken.detail


def test_a_card_that_states_another_number_of_rows_is_warned_about(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stated = {
        "config_name": "default",
        "download_size": 1,
        "dataset_size": 1,
        "splits": [{"name": "train", "num_bytes": 1, "num_examples": 400}],
    }
    publish(hub, texts(*"abc"), front_matter={"dataset_info": stated})
    get(tmp_path / "full", source())
    assert "states 400 rows but its files hold 3" in caplog.text
    caplog.clear()
    get(tmp_path / "some", source(), limit=2)
    assert not caplog.text


# ---- limits


def test_a_streaming_source_is_fetched_only_as_far_as_the_limit(hub: Hub, tmp_path: Path) -> None:
    publish(hub, *(texts(*(f"{file}-{row}" for row in range(10))) for file in range(4)))
    get(tmp_path, source(streaming=True), limit=12)
    assert read(tmp_path) == [f"0-{n}" for n in range(10)] + ["1-0", "1-1"]
    assert len(hub.journal.matching("/cdn/", "GET")) == 2


def test_other_sources_give_a_seeded_sample_of_few_files(hub: Hub, tmp_path: Path) -> None:
    publish(hub, *(texts(*(f"{file}-{row}" for row in range(10))) for file in range(4)))
    get(tmp_path / "a", source(), limit=5, seed=3)
    get(tmp_path / "b", source(), limit=5, seed=3)
    get(tmp_path / "c", source(), limit=5, seed=4)
    assert read(tmp_path / "a") == read(tmp_path / "b") != read(tmp_path / "c")
    assert len(set(read(tmp_path / "a"))) == 5
    assert len(hub.journal.matching("/cdn/", "GET")) <= 2


def test_trees_are_never_cut_by_a_limit(hub: Hub, tmp_path: Path) -> None:
    publish(hub, texts(*"abcdef"))
    done = get(tmp_path, source(group="text"), limit=2)
    assert done.rows == 6 and done.origin["limit"] == -1


def test_a_byte_limit_keeps_a_prefix(hub: Hub, tmp_path: Path) -> None:
    publish(hub, *(texts(*("x" * 100 for _ in range(10))) for _ in range(4)))
    done = get(tmp_path, source(max_bytes=1_300))
    assert 10 < done.rows < 13


def test_a_smaller_sample_on_disk_is_replaced_by_a_larger_one(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, texts(*"abcdef"))
    monkeypatch.setitem(DATASETS, "chat", source(streaming=True))
    assert by_name(download(["chat"], tmp_path, limit=2)) == {"chat": Status.DONE}
    assert by_name(download(["chat"], tmp_path, limit=1)) == {"chat": Status.THERE}
    assert by_name(download(["chat"], tmp_path, limit=4)) == {"chat": Status.DONE}
    assert read(tmp_path) == list("abcd")
    assert by_name(download(["chat"], tmp_path)) == {"chat": Status.DONE}
    assert by_name(download(["chat"], tmp_path, limit=2)) == {"chat": Status.THERE}
    assert read(tmp_path) == list("abcdef")


# ---- statuses


def test_one_source_that_fails_stops_no_other_and_each_says_why(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, texts("a"))
    publish_dataset(hub, "acme/gated", {"default": {"train": [texts("a")]}}, gated=True)
    publish_dataset(hub, "acme/renamed", {"default": {"train": [pa.table({"t": ["a"]})]}})
    publish_dataset(hub, "acme/down", {"default": {"train": [texts("a")]}})
    publish_dataset(hub, "acme/busy", {"default": {"train": [texts("a")]}})
    hub.fault("/api/datasets/acme/down", status=503, times=99)
    hub.fault("/api/datasets/acme/busy", status=429, headers={"Retry-After": "999"}, times=99)
    for name in ("gated", "missing", "renamed", "down", "busy"):
        monkeypatch.setitem(DATASETS, name, source(path=f"acme/{name}"))
    monkeypatch.setitem(DATASETS, "chat", source())
    names = ["gated", "missing", "renamed", "down", "busy", "chat", "chat"]
    assert by_name(download(names, tmp_path)) == {
        "gated": Status.GATED,
        "missing": Status.NOT_FOUND,
        "renamed": Status.COLUMNS,
        "down": Status.NETWORK,
        "busy": Status.RATE_LIMITED,
        "chat": Status.DONE,
    }
    assert sorted(path.name for path in tmp_path.iterdir() if path.name == "chat") == ["chat"]


def test_a_token_without_access_has_a_status_of_its_own(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    hub.tokens.add("hf_secretsecret")
    publish(hub, texts("a"), gated=True)
    monkeypatch.setitem(DATASETS, "chat", source())
    (outcome,) = download(["chat"], tmp_path)
    assert outcome.status is Status.NO_ACCESS and "hf_secretsecret" not in str(outcome)


def test_a_second_run_needs_no_network(hub: Hub, tmp_path: Path) -> None:
    publish_samples(hub, "soda")
    assert by_name(download(["soda"], tmp_path)) == {"soda": Status.DONE}
    hub.journal.clear()
    assert by_name(download(["soda"], tmp_path)) == {"soda": Status.THERE}
    assert len(hub.journal) == 0


def test_a_damaged_copy_is_named_and_not_overwritten(hub: Hub, tmp_path: Path) -> None:
    publish_samples(hub, "soda")
    download(["soda"], tmp_path)
    (tmp_path / "soda" / "state.json").unlink()
    (outcome,) = download(["soda"], tmp_path)
    assert outcome.status is Status.DAMAGED and "state.json is missing" in outcome.detail


def test_a_copy_of_another_source_or_revision_is_refused_with_both_values(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, texts("a"))
    monkeypatch.setitem(DATASETS, "chat", source())
    download(["chat"], tmp_path)
    monkeypatch.setitem(DATASETS, "chat", source(path="acme/other"))
    (outcome,) = download(["chat"], tmp_path)
    assert "'acme/chat', download_data.py says 'acme/other'" in outcome.detail
    monkeypatch.setitem(DATASETS, "chat", source(revision="0" * 40))
    (outcome,) = download(["chat"], tmp_path)
    assert outcome.status is Status.FAILED and "0" * 40 in outcome.detail


# ---- command line


def test_the_command_line_reports_each_and_its_status_says_if_all_is_well(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_samples(hub, "soda")
    assert main(["soda", "--data-dir", str(tmp_path)]) == 0
    assert "soda" in capsys.readouterr().out
    assert main(["soda", "oasst2", "--data-dir", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "already there" in out and "not found" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nope"], "unknown data set 'nope'; known: wildchat, soda"),
        (["--limit", "0"], "limit is 0"),
        (["--limit", "many"], "invalid int value"),
        (["--sample", "--limit", "5"], "no meaning with --sample"),
        (["--bogus"], "unrecognized arguments"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_status_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    error = capsys.readouterr().err
    assert caught.value.code == 2 and says in error and error.count("\n") == 1


def test_the_list_names_every_source_without_network_or_heavy_imports(hub: Hub) -> None:
    code = (
        "import sys, download_data; download_data.main(['--list']);"
        "heavy = {'torch', 'datasets', 'huggingface_hub', 'transformers'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in DATASETS)
    assert len(hub.journal) == 0


def _homes(**given: str) -> dict[str, str | None]:
    names = ("HF_HOME", "HF_DATASETS_CACHE", "HF_TOKEN_PATH")
    code = (
        "import json, os, download_data;"
        f"print(json.dumps({{name: os.environ.get(name) for name in {names!r}}}))"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=clean | given, capture_output=True, check=True
    )
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


def test_hub_caches_go_into_the_data_folder_and_the_login_token_stays_found() -> None:
    cache = ROOT / "data" / ".hf_cache"
    assert _homes(HOME="/home/ann") == {
        "HF_HOME": str(cache),
        "HF_DATASETS_CACHE": str(cache / "datasets"),
        "HF_TOKEN_PATH": "/home/ann/.cache/huggingface/token",
    }


def test_a_cache_the_user_chose_is_left_alone() -> None:
    assert _homes(HF_HOME="/big/hf") == {
        "HF_HOME": "/big/hf",
        "HF_DATASETS_CACHE": None,
        "HF_TOKEN_PATH": None,
    }
    assert _homes(HF_DATASETS_CACHE="/big/d")["HF_DATASETS_CACHE"] == "/big/d"
    assert _homes(HF_TOKEN_PATH="/my/token")["HF_TOKEN_PATH"] == "/my/token"
