"""A recipe holds what decides the bytes, and refuses what makes no sense."""

import dataclasses
from typing import Any

import pytest

from pipeline_lib.corpus.recipe import ALL_DOCUMENTS, DEFAULT_MAX_DOCUMENTS, Recipe, lane_bound

FOLDER = {"dataset": "folder", "config": None, "tokenizer": "local"}


def test_the_defaults_are_those_of_the_documentation() -> None:
    recipe = Recipe()
    assert (recipe.dataset, recipe.config) == ("HuggingFaceFW/fineweb-edu", "sample-10BT")
    assert (recipe.tokenizer, recipe.text_column) == ("openai-community/gpt2", "text")
    assert (recipe.seed, recipe.val_fraction, recipe.lanes) == (1337, 0.05, 1)
    assert (recipe.shard_tokens, recipe.shuffle_buffer) == (100_000_000, 10_000)
    assert (recipe.shuffle_buffer_bytes, recipe.tokenization_batch_size) == (256 << 20, 1_024)


def test_without_a_bound_ten_thousand_documents_are_visited() -> None:
    assert Recipe().max_documents == DEFAULT_MAX_DOCUMENTS == 10_000
    assert Recipe(train_tokens=5).max_documents is None


def test_all_documents_are_a_bound_that_no_corpus_reaches_and_no_new_digest() -> None:
    every = Recipe(max_documents="all")
    assert every == Recipe(max_documents=ALL_DOCUMENTS) and every.row_bound is None
    assert every.digest == Recipe(max_documents=10**12).digest  # as it was given before
    assert (Recipe().row_bound, Recipe(train_tokens=5).row_bound) == (10_000, None)
    with pytest.raises(ValueError, match="max_documents=all and train_tokens=4 exclude"):
        Recipe(max_documents="all", train_tokens=4)


def test_both_bounds_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"max_documents=3 and train_tokens=4 exclude"):
        Recipe(max_documents=3, train_tokens=4)


COUNTS = [
    "max_documents", "train_tokens", "shard_tokens", "shuffle_buffer", "shuffle_buffer_bytes",
    "tokenization_batch_size", "tokenization_batch_bytes", "lanes",
]  # fmt: skip


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_whole_numbers_above_zero(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name} is {value!r}; give a whole number from 1 to"):
        Recipe(**{name: value})


@pytest.mark.parametrize("seed", [-1, 2**32, 1.0, None, False])
def test_a_seed_is_a_whole_number_of_32_bits(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed is"):
        Recipe(seed=seed)
    assert [Recipe(seed=good).seed for good in (0, 2**32 - 1)] == [0, 2**32 - 1]


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 1, float("nan"), "0.5"])
def test_a_fraction_lies_between_zero_and_one(fraction: Any) -> None:
    with pytest.raises(ValueError, match="val_fraction is"):
        Recipe(val_fraction=fraction)


@pytest.mark.parametrize("name", ["dataset", "text_column", "tokenizer"])
def test_names_are_not_empty(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is ''"):
        Recipe(**{name: ""})


def test_a_recipe_comes_back_from_its_fields() -> None:
    recipe = Recipe(**FOLDER, train_tokens=9, seed=3)
    assert Recipe.from_fields(recipe.fields()) == recipe
    with pytest.raises(ValueError, match="algorithm version 0, this is version 1"):
        Recipe.from_fields({**recipe.fields(), "algorithm": 0})


@pytest.mark.parametrize("change", ["missing", "unknown"])
def test_fields_of_another_form_are_named(change: str) -> None:
    fields = Recipe(**FOLDER).fields() | {"colour": 1}
    if change == "missing":
        del fields["colour"], fields["seed"]
    with pytest.raises(ValueError, match="seed" if change == "missing" else "colour"):
        Recipe.from_fields(fields)


def test_every_field_is_in_the_digest() -> None:
    recipe = Recipe(**FOLDER)
    others = {
        "dataset": "x/y", "config": "c", "revision": "r", "text_column": "body", "tokenizer": "t",
        "tokenizer_revision": "r", "eos_token": "</s>", "max_documents": 7, "seed": 1,
        "val_fraction": 0.5, "shard_tokens": 7, "shuffle_buffer": 7, "shuffle_buffer_bytes": 7,
        "tokenization_batch_size": 7, "tokenization_batch_bytes": 7, "lanes": 7,
    }  # fmt: skip
    changed = [dataclasses.replace(recipe, **{name: value}) for name, value in others.items()]
    changed.append(Recipe(**FOLDER, train_tokens=7))
    names = {field.name for field in dataclasses.fields(Recipe)}
    assert names == {*others, "train_tokens"}
    assert len({recipe.digest, *(other.digest for other in changed)}) == len(names) + 1


def test_the_digest_of_a_recipe_never_changes() -> None:
    assert Recipe(**FOLDER).digest[:16] == "297fc0d84b3861fb"


def test_differences_show_mine_and_theirs() -> None:
    mine, theirs = Recipe(**FOLDER, seed=1), Recipe(**FOLDER, seed=2, lanes=3)
    assert mine.differences(theirs) == [("seed", 1, 2), ("lanes", 1, 3)]
    assert mine.differences(mine) == []


@pytest.mark.parametrize(("total", "lanes"), [(10, 3), (3, 3), (2, 3), (7, 1), (0, 4), (100, 4)])
def test_lanes_share_a_bound_without_a_rest(total: int, lanes: int) -> None:
    parts = [lane_bound(total, lane, lanes) or 0 for lane in range(lanes)]
    assert sum(parts) == total
    assert parts == sorted(parts, reverse=True) and parts[0] - parts[-1] <= 1


def test_lanes_of_a_run_without_a_bound_have_none() -> None:
    assert lane_bound(None, 0, 4) is None


def test_the_label_of_a_recipe_stays_when_its_places_move_and_changes_with_all_else() -> None:
    recipe = Recipe(dataset="/here/corpus", config=None, tokenizer="/here/tokenizer")
    moved = dataclasses.replace(recipe, dataset="/there/corpus", tokenizer="/there/tokenizer")
    assert len(recipe.label) == 12 and recipe.label == moved.label
    changes: list[dict[str, Any]] = [
        {"dataset": "/here/other"}, {"tokenizer": "/here/other"}, {"seed": 1}, {"lanes": 2},
    ]  # fmt: skip
    others = {dataclasses.replace(recipe, **change).label for change in changes}
    assert len(others | {recipe.label}) == 5
