"""Fields beside role and text: flags, and what counts as holding nothing."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from pipeline_lib.chat.turn_fields import blank, flag_of, read_fields, row_fields


@pytest.mark.parametrize(
    ("key", "value", "learn"),
    [
        ("weight", 0, False),
        ("weight", Decimal(0), False),
        ("weight", np.int8(1), True),
        ("loss-mask", 0, False),
        ("lossMask", True, True),
        ("mask_loss", True, False),
        ("no_loss", "yes", False),
        ("ignore_in_training", 1, False),
        ("skip_loss", False, True),
        ("masked", True, False),
        ("is_trained_on", "off", False),
    ],
)
def test_a_flag_is_known_by_its_words(key: str, value: Any, learn: bool) -> None:
    flag = flag_of(key, value)
    assert flag is not None and flag.refusal == ""
    assert flag.learn == learn


@pytest.mark.parametrize(
    ("key", "value"), [("name", 0), ("learning_goal", "x"), ("mask", 0), ("trainee", False)]
)
def test_other_fields_are_no_flags(key: str, value: Any) -> None:
    flag = flag_of(key, value)
    assert flag is None
    assert read_fields({key: value}, (), assistant=True).notes == (f"turn key {key!r} is not read",)


@pytest.mark.parametrize("key", ["ignore_loss", "loss"])
@pytest.mark.parametrize("value", ["maybe", -1, [0, 1], {"a": 1}, 1j])
def test_a_flag_that_can_not_be_read_is_refused(key: str, value: Any) -> None:
    assert "neither yes nor no" in read_fields({key: value}, (), assistant=True).refusal
    assert "neither" not in read_fields({key: value}, (), assistant=False).refusal


@pytest.mark.parametrize(
    "value", [None, float("nan"), np.nan, "", " ", "null", [], {}, [{"a": None}]]
)
def test_nothing_is_nothing_in_every_form(value: Any) -> None:
    assert blank(value) and blank({"inner": value})
    assert read_fields({"weight": value, "x": value}, (), assistant=True) == read_fields(
        {}, (), assistant=True
    )


@pytest.mark.parametrize("value", [0, False, 0.0, np.zeros(1), np.int8(0), "a", [0], np.False_])
def test_a_zero_is_something(value: Any) -> None:
    assert not blank(value)


def test_a_row_is_flagged_only_by_the_usual_names_and_says_so() -> None:
    assert row_fields({"weight": 0}).notes == ("row flag 'weight': no turn is learned",)
    assert not row_fields({"train": "no", "loss": 1}).learn
    assert row_fields({"num_training_steps": 0, "weight": None}) == row_fields({})
    assert row_fields({"loss": 0.3}).notes == (
        "row flag 'loss' is neither 0 nor 1: learned in full",
    )
