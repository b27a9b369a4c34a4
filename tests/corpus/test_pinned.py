"""Pinning makes a recipe exact."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from corpora import small_recipe, tokenizer_bytes
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset, publish_tokenizer

from pipeline_lib.corpus.pinned import pin, versions
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


@pytest.mark.parametrize("thing", ["dataset", "tokenizer"])
def test_a_thing_that_is_gone_from_its_recorded_place_is_named(tmp_path: Path, thing: str) -> None:
    pinned = pin(small_recipe(tmp_path))
    shutil.rmtree(pinned.locations[thing])  # type: ignore[literal-required]
    with pytest.raises(SourceError, match=f"read its {thing} from .* new place with --{thing}"):
        pin(pinned.recipe, pinned.locations)
