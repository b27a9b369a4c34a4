"""The list of data sets: each as its repository is laid out, through the real clients to turns.

And the command line that fetches them.
"""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import notebook
import pyarrow as pa
import pytest
from download_world import QUICK, by_name
from hub_layouts import LAYOUTS, chat_rows, publish, rewrite_chat
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

import download_data
from download_data import DATASETS, download, main
from pipeline_lib.chat.normalize import normalize
from pipeline_lib.chat.rows import open_rows
from pipeline_lib.downloads import fetch, saved
from pipeline_lib.downloads.outcomes import Status
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.registry import ROLES, choose_datasets
from pipeline_lib.downloads.sizes import size_on_hub
from pipeline_lib.hub.retry import RetryPolicy
from pipeline_lib.sampledata import make
from pipeline_lib.sampledata.schemas import SCHEMAS
from pipeline_lib.storage.cache_options import CacheOptions

ROOT = Path(download_data.__file__).parent
TOKEN = "hf_secretsecret"
GATED = [name for name, known in DATASETS.items() if known.gated]
STREAMED = [name for name, known in DATASETS.items() if known.streaming]


def get(name: str, folder: Path, limit: int = -1) -> Status:
    (outcome,) = download([name], folder, limit=limit, retries=QUICK)
    assert outcome.status is not Status.FAILED, outcome
    return outcome.status


def rows_in(folder: Path, name: str) -> pa.Table:
    """What lies on disk, hashed, with the registry's columns checked."""
    table = saved.load(folder / name, DATASETS[name].columns, full=True).data.table
    return table.replace_schema_metadata(None).combine_chunks()


@pytest.fixture(autouse=True)
def logged_in(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.tokens.add(TOKEN)


# ---- the list


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


# ---- as the repositories are laid out


def test_every_registered_source_has_a_layout() -> None:
    assert set(LAYOUTS) == set(DATASETS)


@pytest.mark.parametrize("name", DATASETS)
def test_a_source_comes_whole_from_its_layout_and_its_normalizer_takes_the_rows(
    hub: Hub, tmp_path: Path, name: str
) -> None:
    expected = publish(hub, name, gated=name in GATED, readers=(TOKEN,))
    assert get(name, tmp_path) is Status.DONE
    assert rows_in(tmp_path, name).equals(expected)
    origin, repo = saved.find(tmp_path / name).origin, hub.repos["dataset", DATASETS[name].path]
    assert origin["revision"] == repo.refs.get(LAYOUTS[name].ref, repo.sha)
    assert tuple(file["name"] for file in origin["files"]) == LAYOUTS[name].files
    hub.journal.clear()
    assert get(name, tmp_path) is Status.THERE and len(hub.journal) == 0

    rows = {name: open_rows(tmp_path / name, DATASETS[name])}
    site = CacheOptions(tmp_path / "cache")
    report = normalize(rows, notebook.normalizers(), site, seed=1).reports[name]
    assert report.rows > 10 and report.rejected < 0.2 * report.rows, report
    assert not report.first_traceback


@pytest.mark.parametrize("name", DATASETS)
def test_the_size_of_a_source_is_known_before_any_row_is_fetched(hub: Hub, name: str) -> None:
    publish(hub, name, gated=name in GATED, readers=(TOKEN,))
    size = size_on_hub(name, DATASETS[name], FetchOptions(retries=QUICK))
    tree = hub.repos["dataset", DATASETS[name].path].tree(LAYOUTS[name].ref)
    assert size.known and size.network == sum(tree[path].size for path in LAYOUTS[name].files)


@pytest.mark.parametrize("limit", [-1, 13])
def test_a_renamed_column_of_nemotron_is_not_read_as_nulls(
    hub: Hub, tmp_path: Path, limit: int
) -> None:
    publish(hub, "nemotron")
    rewrite_chat(hub, [row | {"answer": row.pop("output")} for row in chat_rows(hub)])
    assert get("nemotron", tmp_path, limit) is Status.COLUMNS


@pytest.mark.parametrize("limit", [-1, 50])
def test_a_column_of_nemotron_that_begins_as_null_keeps_its_type(
    hub: Hub, tmp_path: Path, limit: int
) -> None:
    expected = publish(hub, "nemotron").to_pylist()
    rows = chat_rows(hub)
    for before, after in zip(rows, expected, strict=False):
        before["system_prompt"] = after["system_prompt"] = None
    rewrite_chat(hub, rows)
    assert get("nemotron", tmp_path, limit) is Status.DONE
    assert rows_in(tmp_path, "nemotron").to_pylist() == expected[: limit if limit > 0 else None]


def test_the_network_failing_in_the_middle_of_a_stream_stops_no_other_source(
    hub: Hub, tmp_path: Path
) -> None:
    publish(hub, "nemotron")
    publish(hub, "soda")
    hub.fault("chat.jsonl", status=404, times=99)
    outcomes = download(["nemotron", "soda"], tmp_path, limit=40, retries=QUICK)
    assert [outcome.status.good for outcome in outcomes] == [False, True]
    assert not (tmp_path / "nemotron").exists()


@pytest.mark.parametrize("name", STREAMED)
def test_of_a_streaming_source_a_limit_takes_the_first_rows(
    hub: Hub, tmp_path: Path, name: str
) -> None:
    expected = publish(hub, name, gated=name in GATED, readers=(TOKEN,))
    assert get(name, tmp_path, limit=13) is Status.DONE
    assert rows_in(tmp_path, name).equals(expected.slice(0, 13).combine_chunks())


@pytest.mark.parametrize("name", GATED)
def test_a_gated_source_says_what_is_missing_and_comes_when_it_is_there(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    expected = publish(hub, name, gated=True, readers=("hf_reader",))
    assert get(name, tmp_path) is Status.NO_ACCESS
    monkeypatch.delenv("HF_TOKEN")
    assert get(name, tmp_path) is Status.GATED
    assert not (tmp_path / name).exists()
    monkeypatch.setenv("HF_TOKEN", "hf_reader")
    assert get(name, tmp_path) is Status.DONE
    assert rows_in(tmp_path, name).equals(expected)


def test_of_wikipedia_the_longest_start_whose_text_fits_is_kept(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = publish(hub, "wikipedia")
    assert DATASETS["wikipedia"].max_bytes == 32 << 30
    assert DATASETS["wikipedia"].capped == ("text",)
    room = sum(len(text.encode()) for text in expected.slice(0, 20).column("text").to_pylist())
    few = dataclasses.replace(DATASETS["wikipedia"], max_bytes=room)
    monkeypatch.setitem(DATASETS, "wikipedia", few)
    assert get("wikipedia", tmp_path) is Status.DONE
    assert rows_in(tmp_path, "wikipedia").equals(expected.slice(0, 20).combine_chunks())
    assert len(hub.journal.matching("/cdn/", "GET")) < len(LAYOUTS["wikipedia"].files)


def test_the_script_of_dailydialog_is_not_even_fetched(hub: Hub, tmp_path: Path) -> None:
    publish(hub, "dailydialog")
    assert get("dailydialog", tmp_path) is Status.DONE
    assert not hub.journal.matching("daily_dialog.py")
    assert not hub.journal.matching("duckdb")


# ---- one call for several


def publish_samples(hub: Hub, *names: str) -> None:
    """The sample's rows under the true addresses, as a stand-in for the true data sets."""
    for name in names:
        known = DATASETS[name]
        table = pa.Table.from_pylist(list(make.rows_of(name)), schema=SCHEMAS[name])
        publish_dataset(
            hub, known.path, {known.config or "default": {split: [table] for split in known.splits}}
        )


def test_a_source_of_the_registry_round_trips_in_its_exact_schema(hub: Hub, tmp_path: Path) -> None:
    publish_samples(hub, "wildchat", "oasst2")
    for name in ("wildchat", "oasst2"):
        fetch.fetch(name, DATASETS[name], tmp_path, FetchOptions(retries=QUICK))
        loaded = saved.load(tmp_path / name, DATASETS[name].columns).data.table
        rows = pa.Table.from_pylist(list(make.rows_of(name)), schema=SCHEMAS[name])
        assert loaded.replace_schema_metadata(None).equals(rows)


def test_a_pause_is_told_to_the_caller(hub: Hub, tmp_path: Path) -> None:
    publish_samples(hub, "soda")
    hub.fault("/api/datasets/", status=429, headers={"Retry-After": "1"})
    told: list[float] = []
    retries = RetryPolicy(on_wait=lambda seconds, why: told.append(seconds))
    assert by_name(download(["soda"], tmp_path, retries=retries)) == {"soda": Status.DONE}
    assert told == [1.0]


# ---- the command line


def test_the_command_line_reports_each_and_its_status_says_if_all_is_well(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_samples(hub, "soda")
    hub.fault("/api/datasets/", status=429, headers={"Retry-After": "1"})
    assert main(["soda", "--data-dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "soda" in out and "(429); try in 1 s; waiting 1 s" in out and "(1 of 1)" in out
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
        "heavy = {'torch', 'datasets', 'huggingface_hub', 'transformers', 'tenacity'};"
        "heavy &= set(sys.modules);"
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
