"""What is picked: splits by content, samples, weighted copies and orders that a seed decides."""

import hashlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline_lib.selection import (
    copies,
    draws,
    identity,
    identity_prefix,
    permutation,
    sample,
    side,
    split_for,
    val_threshold,
    weighted_index,
)

SEED = st.integers(0, 2**32 - 1)


def test_an_identity_is_the_sha256_of_seed_and_text() -> None:
    assert identity(identity_prefix(7), b"text") == hashlib.sha256(b"7\0text").digest()


def test_the_first_64_bits_of_an_identity_decide_the_split() -> None:
    threshold = val_threshold(0.25)
    assert threshold == 2**62
    assert side((2**62 - 1).to_bytes(8, "big") + bytes(24), threshold) == "val"
    assert side((2**62).to_bytes(8, "big") + bytes(24), threshold) == "train"


@given(st.text(), SEED)
def test_the_split_depends_on_text_seed_and_fraction_alone(text: str, seed: int) -> None:
    expected = side(identity(identity_prefix(seed), text.encode()), val_threshold(0.3))
    assert split_for(text, seed, 0.3) == split_for(text, seed, 0.3) == expected


def test_about_the_asked_fraction_is_validation() -> None:
    found = sum(split_for(f"text {i}", 1, 0.05) == "val" for i in range(10_000))
    assert 400 < found < 600


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
def test_a_fraction_that_leaves_one_side_empty_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="val_fraction"):
        val_threshold(fraction)


def test_draws_are_pinned_for_ever() -> None:
    assert draws(2, 1337, "mixture").tolist() == [891350824548007770, 6504638206567815122]


@given(st.integers(0, 200), SEED)
def test_a_permutation_holds_every_place_once(count: int, seed: int) -> None:
    assert sorted(permutation(count, seed, "x").tolist()) == list(range(count))


@example(9, -1, 0)
@example(9, 9, 0)
@given(st.integers(0, 100), st.integers(-1, 120), SEED)
def test_a_sample_is_ascending_without_repeats_and_as_large_as_asked(
    count: int, limit: int, seed: int
) -> None:
    rows = sample(count, limit, seed, "x").tolist()
    assert rows == sorted(set(rows))
    assert len(rows) == (count if limit == -1 else min(limit, count))
    assert set(rows) <= set(range(count))


@pytest.mark.parametrize("limit", [-2, -10])
def test_a_limit_below_all_of_them_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"limit is {limit}; expected a number of rows, or -1"):
        sample(5, limit, 1)


def test_a_smaller_sample_is_part_of_a_larger_one() -> None:
    assert set(sample(50, 10, 3, "x")) < set(sample(50, 20, 3, "x"))


@given(st.integers(0, 60), st.floats(0, 5), SEED)
def test_copies_are_whole_repeats_and_a_part_without_replacement(
    count: int, weight: float, seed: int
) -> None:
    times = np.bincount(copies(count, weight, seed, "x"), minlength=count)
    assert set(times) <= {int(weight), int(weight) + 1}
    assert abs(times.sum() - weight * count) <= 0.5 + 1e-9


@pytest.mark.parametrize(("weight", "rows"), [(0, 0), (0.3, 3), (1, 10), (2.5, 25)])
def test_a_weight_gives_that_many_rows(weight: float, rows: int) -> None:
    assert len(copies(10, weight, 1, "x")) == rows


@pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan")])
def test_a_weight_that_is_no_amount_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        copies(10, weight, 1)


def test_an_index_spans_the_sources_in_a_spread_order() -> None:
    index = weighted_index({"a": 3, "none": 0, "b": 2}, {"a": 2, "none": 5}, 1)
    assert sorted(index.tolist()) == [0, 0, 1, 1, 2, 2, 3, 4]
    assert index.tolist() != sorted(index.tolist())
    assert index.dtype == np.int64


def test_another_source_does_not_change_which_rows_of_a_source_are_taken() -> None:
    alone = weighted_index({"a": 100}, {"a": 0.2}, 1)
    beside = weighted_index({"a": 100, "b": 5}, {"a": 0.2}, 1)
    assert sorted(alone.tolist()) == sorted(row for row in beside.tolist() if row < 100)


def test_no_sources_give_an_empty_index() -> None:
    assert weighted_index({}, {}, 1).tolist() == []
