"""Entries of the registry: what can be meant, and which are chosen."""

import pytest
from download_world import spec

from pipeline_lib.downloads.registry import check_name, choose_datasets


def test_a_source_that_can_not_be_meant_is_refused() -> None:
    for wrong in (
        {"role": "poetry"},
        {"columns": {}},
        {"splits": ()},
        {"max_bytes": 0},
        {"capped": ("other",)},
    ):
        with pytest.raises(ValueError, match="acme/chat"):
            spec(**wrong)
    with pytest.raises(ValueError, match="needs a config name"):
        spec(parquet="refs/convert/parquet")


CHOICE = {"a": spec(), "b": spec(), "c": spec(disabled="its licence is not known")}


def test_names_are_chosen_once_and_in_their_order() -> None:
    assert list(choose_datasets(CHOICE, ["b", "a", "b"])) == ["b", "a"]


def test_without_names_all_enabled_ones_are_chosen() -> None:
    assert list(choose_datasets(CHOICE, [])) == ["a", "b"]
    assert list(choose_datasets(CHOICE, ["c"])) == ["c"]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown data set 'd'; known: a, b, c"):
        choose_datasets(CHOICE, ["a", "d"])


@pytest.mark.parametrize("name", ["", "Chat", "a/b", "..", "-a", "a" * 65])
def test_a_name_that_is_no_folder_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="can not name a data set"):
        check_name(name)
