"""Folders of earlier runs: found by their keys, and used only for an equal run."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fit_world import PARAMETERS, chats, documents, options, run_all, source

from pipeline_lib.downloads import saved, sizes
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.machine import folder_bytes
from pipeline_lib.preflight.amounts import SizingParameters
from pipeline_lib.preflight.reuse import Held, Reusable, find_reusable
from pipeline_lib.sampledata.sizes import size_of_sample
from pipeline_lib.storage import atomic
from pipeline_lib.storage.keyed_folder import META
from pipeline_lib.token_caches.named_tokenizer import named_tokenizer
from pipeline_lib.tokenization.bpe_training import train_bpe

SOURCES = {"chat": source(), "more": source()}
ROWS = {"sft", "dpo", "fit-sft", "fit-dpo"}
EVERYTHING = {"normalized-chat", "normalized-more", "tokenizer", "shards", "pretrain"} | ROWS


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All stages over two sources and a folder of documents."""
    import datasets
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("data")
    for name, table in (("chat", chats(300)), ("more", chats(200, first=300))):
        features = datasets.Features.from_arrow_schema(table.schema)
        origin: dict[str, Any] = {"path": "acme/chat", "limit": -1}
        columns: dict[str, pa.DataType] = dict(SOURCES[name].columns)
        saved.save(folder / name, [table], features, columns=columns, origin=origin)
    (folder / "corpus").mkdir()
    pq.write_table(documents(400), folder / "corpus" / "part.parquet")
    run_all(SOURCES, folder, corpus=str(folder / "corpus"))
    return folder


def find(
    data_dir: Path, parameters: SizingParameters = PARAMETERS, by: FetchOptions | None = None
) -> Reusable:
    specs = SOURCES.items()
    found = [sizes.size_on_disk(name, data_dir / name, -1, spec.columns) for name, spec in specs]
    there = [size or size_of_sample("soda") for size in found]
    return find_reusable(there, data_dir, parameters, by or options())


def complete(found: Reusable) -> set[str]:
    return {kind for kind, held in found.items() if held.complete}


def test_everything_that_an_equal_run_made_is_found(data_dir: Path) -> None:
    found = find(data_dir)
    assert complete(found) == found.keys() == EVERYTHING
    assert found.cached == folder_bytes(data_dir / "cache")
    assert found["shards"].bytes == folder_bytes(data_dir / "shards" / "corpus")


def test_nothing_is_left_to_write_of_a_complete_folder() -> None:
    found = Reusable(sft=Held(5, complete=True), dpo=Held(7))
    assert [found[kind].left(10) for kind in ("sft", "dpo", "pretrain")] == [0, 3, 10]
    assert found["dpo"].left(6) == 0
    assert found.keys() == {"sft", "dpo"}


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"max_len": 99}, {"fit-sft", "fit-dpo"}),
        ({"train_tokens": 99}, {"shards"}),
        ({"weights": {"chat": 2.0}}, {"tokenizer", "shards", "pretrain"} | ROWS),
        ({"vocab_size": 999}, {"tokenizer", "shards", "pretrain"} | ROWS),
        ({"val_fraction": 0.1}, EVERYTHING),
    ],
)
def test_another_parameter_leaves_the_folders_that_do_not_depend_on_it(
    data_dir: Path, change: dict[str, Any], lost: set[str]
) -> None:
    found = find(data_dir, dataclasses.replace(PARAMETERS, **change))
    assert complete(found) == EVERYTHING - lost


def test_a_named_tokenizer_is_not_trained_and_what_was_made_with_it_is_found(
    data_dir: Path, tmp_path: Path
) -> None:
    (kept,) = (data_dir / "cache").glob("tokenizer-*")
    named = named_tokenizer(str(kept))
    heavier = dataclasses.replace(PARAMETERS, tokenizer=named, weights={"chat": 2.0}, vocab_size=9)
    found = find(data_dir, heavier)
    assert complete(found) == EVERYTHING - {"pretrain"}
    assert found["tokenizer"].bytes == folder_bytes(kept)
    assert heavier.vocab_size == PARAMETERS.vocab_size
    elsewhere = shutil.copytree(kept, tmp_path / kept.name)
    parameters = dataclasses.replace(PARAMETERS, tokenizer=named_tokenizer(str(elsewhere)))
    assert complete(find(data_dir, parameters)) == EVERYTHING
    assert find(data_dir, parameters)["tokenizer"].bytes == 0
    (elsewhere / "tokenizer.json").write_bytes(train_bpe([], vocab_size=300).json)
    parameters = dataclasses.replace(PARAMETERS, tokenizer=named_tokenizer(str(elsewhere)))
    assert complete(find(data_dir, parameters)) == EVERYTHING - ({"shards", "pretrain"} | ROWS)
    assert find_reusable([], tmp_path, parameters, options())["tokenizer"].left(99) == 0


@pytest.mark.parametrize("other", [FetchOptions(seed=8), FetchOptions(100, seed=7)])
def test_another_seed_or_limit_uses_nothing(data_dir: Path, other: FetchOptions) -> None:
    assert complete(find(data_dir, by=other)) == set()


def test_a_source_that_is_still_to_come_changes_all_stages_that_join_the_sources(
    data_dir: Path,
) -> None:
    there = sizes.size_on_disk("chat", data_dir / "chat", -1, SOURCES["chat"].columns)
    assert there is not None
    found = [there, sizes.Size("more", 200, 10, 10)]
    assert find_reusable(found, data_dir, PARAMETERS, options()).keys() == {"normalized-chat"}


def test_an_unfinished_cache_holds_its_bytes_and_is_not_complete(data_dir: Path) -> None:
    (folder,) = (data_dir / "cache").glob("sft-*")
    whole = atomic.load_json(folder / META)
    atomic.save_json(folder / META, {**whole, "complete": False})
    found = find(data_dir)
    atomic.save_json(folder / META, whole)
    assert complete(found) == EVERYTHING - {"sft", "fit-sft"}
    assert found["sft"].bytes == pytest.approx(folder_bytes(folder), rel=0.01)


def test_an_empty_folder_holds_nothing(tmp_path: Path) -> None:
    assert find_reusable([], tmp_path, PARAMETERS, options()) == Reusable()
