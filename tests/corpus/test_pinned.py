"""Pinning makes a recipe exact; describing says what a run would do and does nothing."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from corpora import folder_of, small_recipe, tokenizer_bytes
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset, publish_tokenizer

from pipeline_lib.corpus.pinned import describe, pin, versions
from pipeline_lib.errors import ColumnError, SourceError


def test_a_folder_and_a_file_are_pinned_by_content_not_by_path(tmp_path: Path) -> None:
    one, two = (pin(small_recipe(tmp_path / name)) for name in ("one", "two"))
    assert one.recipe == two.recipe
    assert (one.recipe.dataset, one.recipe.tokenizer) == ("folder", "local")
    for revision in (one.recipe.revision, one.recipe.tokenizer_revision):
        assert re.fullmatch("sha256:[0-9a-f]{64}", revision or "")
    assert one.locations != two.locations
    assert one.locations["dataset"] == str(tmp_path / "one" / "corpus")


def test_a_pinned_recipe_finds_its_folder_by_its_location(tmp_path: Path) -> None:
    pinned = pin(small_recipe(tmp_path))
    again = pin(pinned.recipe, pinned.locations)
    assert again.recipe == pinned.recipe and again.locations == pinned.locations


def test_branches_become_commits_and_the_end_token_is_named(hub: Hub, tmp_path: Path) -> None:
    data = publish_dataset(hub, "acme/docs", {"default": {"train": [[{"text": "a"}]]}})
    model = publish_tokenizer(hub, "acme/tok", tokenizer_bytes())
    recipe = small_recipe(
        tmp_path, dataset="acme/docs", revision="main", tokenizer="acme/tok", eos_token=None
    )
    pinned = pin(recipe)
    assert pinned.recipe.revision == data.sha
    assert pinned.recipe.tokenizer_revision == model.sha
    assert pinned.recipe.eos_token == "<|endoftext|>"


def test_more_lanes_than_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="lanes is 4 but the source has 3 files"):
        pin(small_recipe(tmp_path, lanes=4))


def test_a_wrong_column_is_found_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ColumnError, match="0 columns are named `body`"):
        pin(small_recipe(tmp_path, text_column="body"))


def test_versions_are_those_that_could_change_a_byte() -> None:
    found = versions()
    assert set(found) == {"python", "huggingface-hub", "numpy", "pyarrow", "tokenizers"}
    assert found["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"


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
