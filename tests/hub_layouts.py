"""Every registered data set on the loopback hub, in the layout that its repository has."""

import json
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
from loopback_hub import Hub
from loopback_hub.publish import CONVERTED, card, parquet_bytes

from download_data import DATASETS
from pipeline_lib.sampledata import make
from pipeline_lib.sampledata.schemas import SCHEMAS

ROWS = 60


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


def chat_rows(hub: Hub) -> list[dict[str, Any]]:
    data = hub.repos["dataset", DATASETS["nemotron"].path].file(LAYOUTS["nemotron"].files[0])
    return [json.loads(line) for line in data.splitlines()]


def rewrite_chat(hub: Hub, rows: list[dict[str, Any]]) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    hub.repos["dataset", DATASETS["nemotron"].path].edit({LAYOUTS["nemotron"].files[0]: data})
