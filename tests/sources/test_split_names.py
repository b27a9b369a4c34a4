"""Names speak of splits as they do for ``datasets``: by whole words."""

import re

import pytest
from datasets.data_files import (
    DEFAULT_PATTERNS_SPLIT_IN_DIR_NAME,
    DEFAULT_PATTERNS_SPLIT_IN_FILENAME,
)
from fsspec.utils import glob_translate

from pipeline_lib.sources.split_names import outside_split, splits_named

NAMES = [
    "train.parquet", "train-00000-of-00001.parquet", "data/train-0.parquet", "pretrain-0.parquet",
    "train_sft-0.parquet", "training.parquet", "trains.parquet", "my train.parquet",
    "part2train3.parquet", "train/a.parquet", "data/train/en/a.parquet", "my-train/a.parquet",
    "pretrain/a.parquet", "test-0.parquet", "latest.parquet", "contest/a.parquet",
    "a/test/b.parquet",
    "eval.parquet", "evaluation_1.parquet", "medieval.parquet", "val-0.parquet", "value.parquet",
    "interval/a.parquet", "dev/a.parquet", "device.parquet", "validation-0.parquet",
    "valid.parquet", "invalid.parquet", "test_2/x.parquet", "a.parquet", "trainer/a.parquet",
]  # fmt: skip


def by_datasets(name: str) -> set[str]:
    """The splits whose patterns match a name, folders and file names alike."""
    return {
        str(split)
        for patterns in (DEFAULT_PATTERNS_SPLIT_IN_DIR_NAME, DEFAULT_PATTERNS_SPLIT_IN_FILENAME)
        for split, globs in patterns.items()
        for pattern in globs
        if re.match(glob_translate(pattern), name)
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_name_speaks_of_the_splits_that_datasets_finds_in_it(name: str) -> None:
    assert set(splits_named(name)) == by_datasets(name)
    assert splits_named(name.upper()) == splits_named(name)


def test_where_no_name_speaks_of_a_split_nothing_is_left_out() -> None:
    assert outside_split(["a.parquet", "pretrain-0.parquet", "latest/b.parquet"], "train") == {}


def test_where_one_name_speaks_of_a_split_all_others_are_left_out_with_a_reason() -> None:
    names = ["train-0.parquet", "test-0.parquet", "x.parquet", "train/dev.parquet", "val/a.parquet"]
    assert outside_split(names, "train") == {
        "test-0.parquet": "split test",
        "x.parquet": "named for no split, and others are",
        "train/dev.parquet": "named for train and validation",
        "val/a.parquet": "split validation",
    }
