"""An unfinished run goes on only as itself; every difference is shown, old and new."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from corpora import small_recipe

from pipeline_lib.corpus.pinned import Pinned, pin, versions
from pipeline_lib.corpus.sameness import check_same_run
from pipeline_lib.errors import ResumeRefused, SourceChanged
from pipeline_lib.sources.resolve import reader_metadata


@pytest.fixture
def pinned(tmp_path: Path) -> Pinned:
    return pin(small_recipe(tmp_path))


def recorded(pinned: Pinned, **changes: Any) -> dict[str, Any]:
    return {
        "recipe": pinned.recipe.fields(),
        "reader": reader_metadata(pinned.source, pinned.recipe),
        "versions": versions(),
        "tokenizer": pinned.tokenizer.metadata(),
    } | changes


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
    check_same_run(recorded(pinned, locations=dict(pinned.locations)), moved)
