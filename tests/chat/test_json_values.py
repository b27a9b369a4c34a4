"""Values of JSON: what is kept to the letter, and what is no JSON."""

import datetime
import decimal
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.json_values import (
    as_json,
    checked_json,
    from_json,
    has_nulls,
    without_nulls,
)
from pipeline_lib.chat.reject import Reject

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)  # fmt: skip


@given(JSON)
def test_json_is_itself_with_the_order_of_its_keys(value: object) -> None:
    checked = checked_json(value, "it")
    assert json.dumps(checked) == json.dumps(value) == json.dumps(json.loads(as_json(checked)))


def test_json_is_compact_and_in_utf_8() -> None:
    assert as_json({"z": "é世", "a": [1, 1.0, None]}) == '{"z":"é世","a":[1,1.0,null]}'.encode()


@given(JSON)
def test_no_object_has_a_null_any_more_and_nothing_else_is_lost(value: object) -> None:
    kept = without_nulls(value)
    assert not has_nulls(kept) and without_nulls(kept) == kept
    if not has_nulls(value):
        assert json.dumps(kept) == json.dumps(value)
    assert without_nulls({"a": [None, {"b": None, "c": 0}], "d": None}) == {"a": [None, {"c": 0}]}


def test_numbers_and_arrays_of_numpy_are_those_of_json() -> None:
    given_one = {"a": np.int64(5), "b": np.float32(0.5), "c": np.array([1, 2]), "d": (1, "x")}
    kept = checked_json(given_one, "it")
    assert as_json(kept) == b'{"a":5,"b":0.5,"c":[1,2],"d":[1,"x"]}'


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": float("nan")}, "it is not JSON (nan)"),
        ([float("-inf")], "it is not JSON (-inf)"),
        ({1: "a"}, "it is not JSON (a key is int)"),
        (b"a", "it is not JSON (bytes)"),
        ({"a": datetime.date(2024, 1, 1)}, "it is not JSON (date)"),
        (decimal.Decimal("1.10"), "it is not JSON (Decimal)"),
        ({"a": {1}}, "it is not JSON (set)"),
        ("\ud800", "it is not valid Unicode"),
        ({"\ud800": 1}, "it is not valid Unicode"),
    ],
)
def test_what_json_can_not_hold_is_refused_by_name(value: object, reason: str) -> None:
    with pytest.raises(Reject) as found:
        checked_json(value, "it")
    assert found.value.reason == reason


def test_a_text_is_read_as_json_however_often_it_was_written_as_json() -> None:
    assert from_json('{"b": 1, "a": 2}', "no") == from_json(json.dumps('{"b": 1, "a": 2}'), "no")
    with pytest.raises(Reject, match="no"):
        from_json("b", "no")
