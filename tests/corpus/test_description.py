"""Describing says what a run would do, and does nothing."""

import json
import os
from pathlib import Path
from typing import Any

from corpora import REFERENCE, folder_of, small_recipe, texts, write_parquet
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

from pipeline_lib.corpus.description import Description, describe, summary
from pipeline_lib.corpus.pinned import pin
from pipeline_lib.corpus.prepare import prepare


def test_a_description_holds_what_a_dry_run_shows_and_leaves_no_trace(tmp_path: Path) -> None:
    pinned = pin(small_recipe(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    found = describe(pinned, tmp_path / "deep" / "out")
    assert (found["files"], found["rows"], found["dtype"]) == (3, 120, "<u2")
    assert found["source_bytes"] == sum(file["size"] for file in pinned.source.files)
    assert found["disk_bytes_free"] > 0 and found["recipe_digest"] == pinned.recipe.digest
    assert json.dumps(found) and sorted(tmp_path.rglob("*")) == before


def test_the_estimate_of_tokens_follows_the_bound(tmp_path: Path) -> None:
    folder_of(tmp_path / "corpus", 1_000)
    few = describe(pin(small_recipe(tmp_path, max_documents=10)), tmp_path)
    all_of_it = describe(pin(small_recipe(tmp_path, max_documents=1_000)), tmp_path)
    asked = describe(pin(small_recipe(tmp_path, max_documents=None, train_tokens=777)), tmp_path)
    assert few["tokens_at_most_about"] * 99 < all_of_it["tokens_at_most_about"]
    assert (asked["tokens_at_most_about"], asked["train_shards_at_most_about"]) == (777, 2)


def test_describing_a_hub_dataset_reads_footers_and_fetches_no_file(
    hub: Hub, tmp_path: Path
) -> None:
    rows = [{"text": os.urandom(200_000).hex()}] * 9
    publish_dataset(hub, "acme/docs", {"default": {"train": [rows, rows[:4]]}})
    pinned = pin(small_recipe(tmp_path, dataset="acme/docs"))
    found = describe(pinned, tmp_path / "out")
    assert (found["files"], found["rows"]) == (2, 13)
    assert hub.journal.bytes_sent("cdn") < found["source_bytes"]
    assert not list(Path(os.environ["HF_HOME"]).rglob("*.parquet"))


def test_the_rows_of_very_many_hub_files_are_not_asked_for(hub: Hub, tmp_path: Path) -> None:
    publish_dataset(hub, "acme/docs", {"default": {"train": [[{"text": "a"}]] * 65}})
    pinned = pin(small_recipe(tmp_path, dataset="acme/docs"))
    assert describe(pinned, tmp_path / "out")["rows"] is None


def test_a_description_has_the_fields_that_its_type_states(tmp_path: Path) -> None:
    assert describe(pin(small_recipe(tmp_path)), tmp_path).keys() == Description.__required_keys__


def test_the_last_line_says_what_ended_the_run(tmp_path: Path) -> None:
    bounds: dict[str, dict[str, Any]] = {
        "the source ended it after 120 of 1,000 rows": {"max_documents": 1_000},
        "the source ended it": {"max_documents": "all"},
        "the source ended it at 2,837 of 9,999 train tokens": {
            "max_documents": None, "train_tokens": 9_999,
        },
        "--max-documents 50 ended it": {"max_documents": 50},
        "--train-tokens 400 ended it": {"max_documents": None, "train_tokens": 400},
    }  # fmt: skip
    for number, (ended, bound) in enumerate(bounds.items()):
        output = tmp_path / str(number)
        metadata = prepare(small_recipe(tmp_path, **bound), output, options=REFERENCE)
        line = summary(metadata, output)
        assert line.endswith(f"; {ended}; {output}")
        assert f"content {metadata['content_sha256'][:12]};" in line


def test_the_last_line_says_which_rows_were_left_out_and_why(tmp_path: Path) -> None:
    metadata = prepare(small_recipe(tmp_path), tmp_path / "out", options=REFERENCE)
    assert "; left out 3 null, 5 blank; " in summary(metadata, tmp_path / "out")
    write_parquet(tmp_path / "clean" / "corpus" / "a.parquet", texts(60))
    clean = prepare(small_recipe(tmp_path / "clean"), tmp_path / "all", options=REFERENCE)
    assert "; left out no row; " in summary(clean, tmp_path / "all")
    cut = small_recipe(tmp_path, max_documents=None, train_tokens=400)
    found = prepare(cut, tmp_path / "cut", options=REFERENCE)
    behind = found["counts"]["prefetched_documents_not_written"]
    assert behind and f" {behind} behind the bound; " in summary(found, tmp_path / "cut")
