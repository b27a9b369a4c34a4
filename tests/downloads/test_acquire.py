"""Every registered source, in the layout its repository has, through the real clients to turns."""

import dataclasses
import json
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import notebook
import pyarrow as pa
import pytest
from loopback_hub import Hub
from loopback_hub.publish import CONVERTED, card, parquet_bytes

from download_data import DATASETS, download
from pipeline_lib.chat.normalize import normalize
from pipeline_lib.chat.rows import open_rows
from pipeline_lib.downloads import saved
from pipeline_lib.downloads.acquire import Status
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.sizes import size_on_hub
from pipeline_lib.hub.retry import RetryPolicy
from pipeline_lib.sampledata import make
from pipeline_lib.sampledata.schemas import SCHEMAS
from pipeline_lib.storage.cache_options import CacheOptions

QUICK = RetryPolicy(tries=2, first_pause=0.01)
ROWS = 60
TOKEN = "hf_secretsecret"
GATED = [name for name, source in DATASETS.items() if source.gated]
STREAMED = [name for name, source in DATASETS.items() if source.streaming]


# ---- how the repositories are laid out


class Layout(NamedTuple):
    """Where a repository keeps the rows that are wanted, and what else lies in it.

    ``files`` share the wanted rows in this order; ``decoys`` are data files of other splits and
    configs. ``configs`` are those of the card, None for a card without; ``features`` says
    whether it states them. ``ref`` is the branch, ``others`` are files of ``main`` with no rows.
    """

    files: tuple[str, ...]
    decoys: tuple[str, ...] = ()
    configs: list[dict[str, Any]] | None = None
    features: bool = True
    ref: str = "main"
    others: tuple[str, ...] = ()


def config(name: str = "default", /, **globs: str) -> dict[str, Any]:
    """One entry of a card's ``configs``."""
    paths = [{"split": split, "path": path} for split, path in globs.items()]
    return {"config_name": name, "data_files": paths}


def numbered(stem: str, count: int = 1, mark: str = "") -> tuple[str, ...]:
    return tuple(f"{stem}-{k:05d}-of-{count:05d}{mark}.parquet" for k in range(count))


TRAIN = [config(train="data/train-*")]
EDITIONS = ("20231101.de", "20231101.en", "20231101.simple")
PREFERENCES = [f"{side}_{kind}" for kind in ("prefs", "sft", "gen") for side in ("train", "test")]
TOPICS = ("code", "math", "science", "chat", "safety")

LAYOUTS = {
    "wildchat": Layout(numbered("data/train", 3), configs=TRAIN),
    "soda": Layout(("train.parquet",), ("valid.parquet", "test.parquet"), features=False),
    "oasst2": Layout(
        numbered("data/train", mark="-9f1b2c3d4e5f6071"),
        numbered("data/validation", mark="-0a1b2c3d4e5f6071"),
        [config(train="data/train-*", validation="data/validation-*")],
        others=(
            "2023-11-05_oasst2_all.trees.jsonl.gz",
            "2023-11-05_oasst2_ready.messages.jsonl.gz",
        ),
    ),
    "openthoughts": Layout(
        numbered("data/train", 2),
        numbered("metadata/train", 2),
        [config(train="data/train-*"), config("metadata", train="metadata/train-*")],
    ),
    "wikipedia": Layout(
        numbered("20231101.en/train", 4),
        tuple(name for edition in EDITIONS[::2] for name in numbered(f"{edition}/train")),
        [config(edition, train=f"{edition}/train-*") for edition in EDITIONS],
    ),
    "ultrafeedback": Layout(
        numbered("data/train_prefs"),
        tuple(name for split in PREFERENCES[1:] for name in numbered(f"data/{split}")),
        [config(**{split: f"data/{split}-*" for split in PREFERENCES})],
    ),
    "ultrachat": Layout(
        numbered("data/train_sft", 3, "-a3ecf92756993583"),
        (
            *numbered("data/test_sft", mark="-f7dfac4afe5b93f4"),
            *numbered("data/train_gen", 3, "-a6c9fb894be3e50b"),
            *numbered("data/test_gen", mark="-3d4cd8309148a71f"),
        ),
        [
            config(
                train_sft="data/train_sft-*",
                test_sft="data/test_sft-*",
                train_gen="data/train_gen-*",
                test_gen="data/test_gen-*",
            )
        ],
    ),
    "lmsys": Layout(numbered("data/train", 3, "-4fe861c73d3df27a"), configs=TRAIN),
    "arena": Layout(numbered("data/train", mark="-cced8514c7ed782a"), configs=TRAIN),
    "dailydialog": Layout(
        ("default/train/0000.parquet",),
        ("default/validation/0000.parquet", "default/test/0000.parquet", "default/index.duckdb"),
        features=False,
        ref=CONVERTED,
        others=("daily_dialog.py", "dataset_infos.json"),
    ),
    "bst": Layout(
        numbered("data/train"),
        (*numbered("data/validation"), *numbered("data/test")),
        [config(train="data/train-*", validation="data/validation-*", test="data/test-*")],
    ),
    "openr1_math": Layout(
        numbered("data/train", 2),
        (*numbered("extended/train"), *numbered("all/default"), *numbered("all/extended")),
        [
            config("all", default="all/default-*", extended="all/extended-*"),
            config("default", train="data/train-*"),
            config("extended", train="extended/train-*"),
        ],
    ),
    "general_thought": Layout(
        ("traces_20250121_part1.parquet", "traces_20250121_part2.parquet"), features=False
    ),
    "nemotron": Layout(
        ("SFT/chat/chat.jsonl", "SFT/science/science.jsonl"),
        (
            *(f"SFT/{topic}/{topic}_v1.1.jsonl" for topic in ("code", "math", "safety")),
            "RL/instruction_following/instruction_following.jsonl",
        ),
        [
            config("SFT", **{topic: f"SFT/{topic}/*.jsonl" for topic in TOPICS}),
            config("RL", instruction_following="RL/instruction_following/*.jsonl"),
        ],
        features=False,
    ),
}


def feature(kind: pa.DataType) -> dict[str, Any]:
    """A type as the cards of that time spell it; a struct of lists is a sequence of structs."""
    if pa.types.is_list(kind):
        inner = feature(kind.value_type)
        if pa.types.is_struct(kind.value_type):
            return {"list": inner["struct"]}
        return {"sequence": inner.get("dtype", inner)}
    if pa.types.is_struct(kind):
        if all(pa.types.is_list(field.type) for field in kind):
            single = pa.struct([(field.name, field.type.value_type) for field in kind])
            return {"sequence": feature(single)["struct"]}
        return {"struct": [{"name": field.name, **feature(field.type)} for field in kind]}
    names = {pa.float64(): "float64", pa.timestamp("us", tz="UTC"): "timestamp[us, tz=UTC]"}
    return {"dtype": names.get(kind, str(kind))}


def file_bytes(name: str, table: pa.Table) -> bytes:
    if name.endswith(".jsonl"):
        return b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist())
    return parquet_bytes(table) if name.endswith(".parquet") else b"no rows"


def wanted(name: str) -> pa.Table:
    rows = list(islice(make.rows_of(name), ROWS * (5 if DATASETS[name].group else 1)))
    return pa.Table.from_pylist(rows, schema=SCHEMAS[name])


def publish(hub: Hub, name: str, **access: Any) -> pa.Table:
    """Put a source on the hub as its repository is laid out; the rows that must arrive."""
    layout, table = LAYOUTS[name], wanted(name)
    repo = hub.repo("dataset", DATASETS[name].path, **access)
    repo.lfs_patterns += ("*.jsonl",)
    share = -(-table.num_rows // len(layout.files))
    files = {
        path: file_bytes(path, table.slice(place * share, share))
        for place, path in enumerate(layout.files)
    }
    files |= {path: file_bytes(path, table.slice(5, 7)) for path in layout.decoys}
    matter: dict[str, Any] = {"configs": layout.configs} if layout.configs else {"license": "mit"}
    if layout.features:
        fields = [{"name": field.name, **feature(field.type)} for field in table.schema]
        stated = {"features": fields, "config_name": DATASETS[name].config or "default"}
        matter["dataset_info"] = [stated]
    main = {"README.md": card(matter)} | dict.fromkeys(layout.others, b"raise SystemExit")
    repo.commit(main | (files if layout.ref == "main" else {}))
    if layout.ref != "main":
        repo.commit(files, ref=layout.ref)
    whole = layout.files[0].endswith(".parquet")  # JSON Lines keep the registry's columns
    return table if whole else table.select(list(DATASETS[name].columns))


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


# ---- laws


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


def chat_rows(hub: Hub) -> list[dict[str, Any]]:
    data = hub.repos["dataset", DATASETS["nemotron"].path].file(LAYOUTS["nemotron"].files[0])
    return [json.loads(line) for line in data.splitlines()]


def rewrite_chat(hub: Hub, rows: list[dict[str, Any]]) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    hub.repos["dataset", DATASETS["nemotron"].path].edit({LAYOUTS["nemotron"].files[0]: data})


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


def test_of_wikipedia_the_longest_start_within_its_bytes_is_kept(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = publish(hub, "wikipedia")
    assert DATASETS["wikipedia"].max_bytes == 32 << 30
    room = expected.slice(0, 20).nbytes
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
