"""Which files are a split: the card's rules on names alone."""

import pytest

from pipeline_lib.hub.cards import NoSuchFiles, card_files, converted_files

NAMES = [
    "README.md",
    "data/en/train-00001.parquet",
    "data/en/train-00000.parquet",
    "data/en/test-00000.parquet",
    "data/fr/deep/train-0.parquet",
    "data/[x]/train.parquet",
    "data/en/train.csv",
    ".hidden/train.parquet",
    "__old__/train.parquet",
]


def files(entry: object, config: str | None = None, split: str = "train") -> tuple[str, ...]:
    card = {"configs": entry if isinstance(entry, list) else [entry]}
    return card_files(card, NAMES, config, split, "acme/chat at 123")


def one(data_files: object, **more: object) -> dict[str, object]:
    return {"config_name": "default", "data_files": data_files, **more}


TRAIN = ("data/en/train-00000.parquet", "data/en/train-00001.parquet")


@pytest.mark.parametrize(
    "data_files",
    [
        "data/en/train-*",
        ["data/en/train-00000.parquet", "data/en/train-00001.parquet"],
        [{"split": "train", "path": "data/en/train-*.parquet"}],
        [{"split": "train", "path": ["data/en/train-00000*", "data/en/train-00001*"]}],
        {"train": "data/en/train-*", "test": "data/en/test-*"},
        {"train": ["data/*/train-0000?.parquet"]},
        "data/en/train-0000[01].parquet",
    ],
)
def test_every_form_of_data_files_gives_the_same_sorted_files(data_files: object) -> None:
    assert files(one(data_files)) == TRAIN


def test_a_star_stays_in_its_folder_and_two_stars_do_not() -> None:
    assert files(one("data/*/train-*")) == TRAIN
    assert files(one("data/**/train-*")) == (*TRAIN, "data/fr/deep/train-0.parquet")


def test_brackets_that_are_part_of_a_name_are_matched_by_an_escaped_bracket() -> None:
    assert files(one("data/[[]x]/train.parquet")) == ("data/[x]/train.parquet",)


def test_hidden_and_special_folders_match_only_where_they_are_spelled_out() -> None:
    assert ".hidden/train.parquet" not in files(one("**/train*"))
    assert files(one(".hidden/*")) == (".hidden/train.parquet",)
    assert files(one("__old__/*")) == ("__old__/train.parquet",)


def test_patterns_lie_below_the_data_dir_of_the_config() -> None:
    assert files(one("train-*", data_dir="data/en")) == TRAIN


def test_the_default_config_is_the_marked_one_or_the_one_of_that_name_or_the_only_one() -> None:
    english = {"config_name": "en", "data_files": "data/en/train-*"}
    french = {"config_name": "fr", "data_files": "data/fr/**"}
    assert files([french, english | {"default": True}]) == TRAIN
    assert files([french, one("data/en/train-*")]) == TRAIN
    assert files([english]) == TRAIN
    assert files([french, english], config="en") == TRAIN


def test_two_configs_without_a_default_are_an_error_that_lists_them() -> None:
    with pytest.raises(NoSuchFiles, match="'en', 'fr'"):
        files([{"config_name": "en", "data_files": "a"}, {"config_name": "fr", "data_files": "b"}])


def test_errors_list_what_is_there() -> None:
    with pytest.raises(NoSuchFiles, match="no config 'de'; it has 'default'"):
        files(one("data/en/*"), config="de")
    with pytest.raises(NoSuchFiles, match="no split 'train'; it has 'test'"):
        files(one({"test": "data/en/test-*"}))
    with pytest.raises(NoSuchFiles, match=r"match no .parquet file; .*data/en/test-00000.parquet"):
        files(one("elsewhere/*"))
    with pytest.raises(NoSuchFiles, match=r"lists no configs.*data/en/test-00000.parquet"):
        card_files({}, NAMES, None, "train", "acme/chat at 123")
    with pytest.raises(NoSuchFiles, match="no parquet files"):
        card_files({}, [], None, "train", "acme/chat at 123")


def test_converted_files_are_found_by_folder_and_a_partial_conversion_is_refused() -> None:
    names = ["default/train/0001.parquet", "default/train/0000.parquet", "default/train/index.db"]
    found = converted_files(names, "default", "train", "x")
    assert found == ("default/train/0000.parquet", "default/train/0001.parquet")
    partial = [*names, "SFT/partial-math/0000.parquet"]
    with pytest.raises(NoSuchFiles, match="only a part of SFT/math"):
        converted_files(partial, "SFT", "math", "x")
    with pytest.raises(NoSuchFiles, match="no folder default/test; it has default/train"):
        converted_files(names, "default", "test", "x")
