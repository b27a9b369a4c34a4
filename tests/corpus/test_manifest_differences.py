"""Two manifests differ in exactly the fields whose JSON differs, wherever those are."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tampering import places

from pipeline_lib.corpus.manifest_differences import ABSENT, differences

LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.text(max_size=2)
NAMES = st.text("abc", min_size=1, max_size=2)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@given(VALUES, VALUES)
def test_there_is_a_difference_where_the_json_differs_and_nowhere_else(
    made: Any, found: Any
) -> None:
    assert (not list(differences(made, found))) == same(made, found)


@given(VALUES, VALUES, st.integers(0, 100))
def test_one_changed_value_gives_only_differences_below_its_place(
    made: Any, value: Any, number: int
) -> None:
    known = [place for place in places(made) if place]
    if not known:
        return
    place = known[number % len(known)]
    found = copy.deepcopy(made)
    inside = found
    for name in place[:-1]:
        inside = inside[name]
    old, inside[place[-1]] = inside[place[-1]], value
    shown = "".join(f"[{n}]" if isinstance(n, int) else f".{n}" for n in place).lstrip(".")
    where = [difference.where for difference in differences(made, found)]
    assert bool(where) != same(old, value)
    assert all(name.startswith(shown) for name in where)


def test_a_field_on_one_side_only_is_absent_on_the_other() -> None:
    found = list(differences({"a": {"b": 1}, "c": [1, 2]}, {"a": {}, "c": [1], "d": None}))
    assert found == [
        ("a.b", "1", ABSENT),
        ("c[1]", "2", ABSENT),
        ("d", ABSENT, "null"),
    ]


def test_numbers_of_other_types_differ() -> None:
    assert list(differences({"a": 1}, {"a": 1.0})) == [("a", "1", "1.0")]
    assert list(differences({"a": 1}, {"a": True})) == [("a", "1", "true")]
    assert list(differences({"a": 0}, {"a": False})) == [("a", "0", "false")]
