"""An unfinished run goes on only as itself; every difference is shown, old and new."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from corpora import a_checkpoint, small_recipe
from loopback_hub import Hub

from pipeline_lib.corpus.pinned import Pinned, pin, versions
from pipeline_lib.corpus.reader import reader_metadata
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.resume_checks import (
    check_published_run,
    check_same_run,
    with_changes,
    with_recorded_pins,
)
from pipeline_lib.corpus.state import Checkpoint
from pipeline_lib.errors import ResumeRefused, SourceChanged


@pytest.fixture
def pinned(tmp_path: Path) -> Pinned:
    return pin(small_recipe(tmp_path))


def recorded(pinned: Pinned, **changes: Any) -> Checkpoint:
    fields = {
        "recipe": pinned.recipe.fields(),
        "reader": reader_metadata(pinned.source, pinned.recipe),
        "versions": versions(),
        "tokenizer": pinned.tokenizer.metadata(),
    }
    return a_checkpoint(**(fields | changes))


def test_the_same_run_is_the_same(pinned: Pinned) -> None:
    check_same_run(recorded(pinned), pinned)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("seed", 7, 1337), ("val_fraction", 0.5, 0.2), ("shard_tokens", 99, 500),
        ("max_documents", 5, 1_000), ("shuffle_buffer", 9, 20), ("lanes", 2, 1),
        ("tokenization_batch_size", 3, 16), ("text_column", "body", "text"),
    ],
)  # fmt: skip
def test_a_field_of_the_recipe_that_differs_is_shown(
    pinned: Pinned, name: str, old: Any, new: Any
) -> None:
    fields = {**pinned.recipe.fields(), name: old}
    with pytest.raises(ResumeRefused, match=rf"\({name}: was {old!r}, is {new!r}\); give the rec"):
        check_same_run(recorded(pinned, recipe=fields), pinned)


def test_another_revision_is_refused_with_both(pinned: Pinned) -> None:
    fields = {**pinned.recipe.fields(), "revision": "a" * 40}
    with pytest.raises(ResumeRefused, match=f"revision: was '{'a' * 40}', is 'sha256:"):
        check_same_run(recorded(pinned, recipe=fields), pinned)


@pytest.mark.parametrize("fields", [{"algorithm": 0}, {}, {"algorithm": 1, "unknown": 2}])
def test_a_recipe_this_version_can_not_follow_is_refused(
    pinned: Pinned, fields: dict[str, Any]
) -> None:
    with pytest.raises(ResumeRefused, match="the recorded recipe can not be used"):
        check_same_run(recorded(pinned, recipe=fields), pinned)


def test_other_versions_are_refused_with_the_line_that_restores_them(pinned: Pinned) -> None:
    now = versions()
    old = {**now, "numpy": "1.26.4", "tokenizers": "0.19.1"}
    with pytest.raises(
        ResumeRefused,
        match=rf"numpy: was 1.26.4, is {now['numpy']}; tokenizers: was 0.19.1, is .*"
        r"pip install numpy==1.26.4 tokenizers==0.19.1",
    ):
        check_same_run(recorded(pinned, versions=old), pinned)


def test_another_python_has_no_pip_line(pinned: Pinned) -> None:
    old = {**versions(), "python": "3.9"}
    with pytest.raises(ResumeRefused, match=r"python: was 3\.9, is .*; use the recorded ones"):
        check_same_run(recorded(pinned, versions=old), pinned)


def test_a_package_that_was_not_recorded_is_a_difference_too(pinned: Pinned) -> None:
    old = {name: version for name, version in versions().items() if name != "pyarrow"}
    with pytest.raises(ResumeRefused, match="pyarrow: was None, is"):
        check_same_run(recorded(pinned, versions=old), pinned)


def test_another_tokenizer_is_refused(pinned: Pinned) -> None:
    old = {**pinned.tokenizer.metadata(), "eos_id": 9}
    with pytest.raises(ResumeRefused, match=r"the tokenizer was .*'eos_id': 9.* is .*'eos_id': 0"):
        check_same_run(recorded(pinned, tokenizer=old), pinned)


@pytest.mark.parametrize("change", ["grown", "gone", "new"])
def test_files_of_other_sizes_are_named(pinned: Pinned, change: str) -> None:
    reader = reader_metadata(pinned.source, pinned.recipe)
    size = reader["sizes"]["part-1.parquet"]
    if change == "grown":
        reader["sizes"]["part-1.parquet"] = 5
        expected = f"part-1.parquet: was 5 bytes .*, is {size} bytes"
    elif change == "gone":
        reader["sizes"]["part-7.parquet"] = 5
        expected = r"part-7.parquet: was 5 bytes, is absent"
    else:
        del reader["sizes"]["part-1.parquet"]
        expected = f"part-1.parquet: was absent, is {size} bytes"
    with pytest.raises(SourceChanged, match=expected):
        check_same_run(recorded(pinned, reader=reader), pinned)


def test_where_things_are_is_no_difference(pinned: Pinned) -> None:
    moved = dataclasses.replace(pinned, locations={"dataset": "/elsewhere", "tokenizer": "/there"})
    check_same_run(recorded(pinned, locations=pinned.locations), moved)


def published(fields: dict[str, Any]) -> Any:
    """As much of a manifest as is compared."""
    source = {"sizes": {}, "sha256": {}}
    measured = {"source_mtimes_ns": {}}
    return {"format_version": 2, "recipe": fields, "source": source, "measured": measured}


def test_a_published_recipe_is_the_same_by_name_or_by_what_the_name_stands_for(
    pinned: Pinned, tmp_path: Path
) -> None:
    made = published(pinned.recipe.fields())
    for recipe in (pinned.recipe, small_recipe(tmp_path)):
        check_published_run(made, recipe, "out")
    with pytest.raises(ResumeRefused, match=r"out was published from .*\(seed: was 1337, is 4\)"):
        check_published_run(made, dataclasses.replace(pinned.recipe, seed=4), "out")


@pytest.mark.parametrize("fields", [{}, {"algorithm": 0}, {"algorithm": 1}])
def test_a_published_recipe_that_can_not_be_read_is_refused(
    pinned: Pinned, fields: dict[str, Any]
) -> None:
    with pytest.raises(ResumeRefused, match="the recorded recipe can not be used"):
        check_published_run(published(fields), pinned.recipe, "out")


HUB = Recipe(
    dataset="acme/docs", revision="a" * 40, tokenizer="acme/tok", tokenizer_revision="b" * 40,
    eos_token="<e>",
)  # fmt: skip


def test_names_that_are_left_open_are_those_the_run_began_with() -> None:
    opened = dataclasses.replace(HUB, revision=None, tokenizer_revision=None)
    assert with_recorded_pins(opened, HUB.fields()) == HUB
    other = dataclasses.replace(opened, dataset="acme/other", tokenizer="acme/else")
    assert with_recorded_pins(other, HUB.fields()) == other


def test_a_published_folder_is_the_same_for_names_without_pins_and_the_hub_is_not_asked(
    hub: Hub,
) -> None:
    opened = dataclasses.replace(HUB, revision=None, tokenizer_revision=None, eos_token=None)
    check_published_run(published(HUB.fields()), opened, "out")
    with pytest.raises(ResumeRefused, match=r"\(seed: was 1337, is 4\)"):
        other = dataclasses.replace(opened, seed=4)
        check_published_run(published(HUB.fields()), other, "out")
    assert not len(hub.journal)


def test_the_digest_of_a_folder_is_left_open_so_that_its_files_are_compared(
    pinned: Pinned,
) -> None:
    assert with_recorded_pins(pinned.recipe, pinned.recipe.fields()).revision is None


def test_a_changed_field_opens_the_fields_that_depend_on_it() -> None:
    assert with_changes(HUB.fields(), {}) == HUB
    assert with_changes(HUB.fields(), {"seed": 5}) == dataclasses.replace(HUB, seed=5)
    tokens = with_changes(HUB.fields(), {"train_tokens": 9})
    assert (tokens.train_tokens, tokens.max_documents) == (9, None)
    other = with_changes({**HUB.fields(), "config": "en"}, {"dataset": "acme/other"})
    assert (other.config, other.revision, other.tokenizer_revision) == (None, None, "b" * 40)
    assert with_changes(HUB.fields(), {"tokenizer": "acme/else"}).tokenizer_revision is None
    same = with_changes(HUB.fields(), {"dataset": "acme/docs"})
    assert same == HUB
