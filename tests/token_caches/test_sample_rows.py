"""Rows of samples and of pairs: what fits is whole, and the rest is under one reason."""

import numpy as np
import pytest

from pipeline_lib.token_caches.fitted import CUT, EQUAL, NO_TARGET, NOTHING, TOO_LONG, OverLength
from pipeline_lib.token_caches.sample_rows import PROMPTS_DIFFER, GroupRows, SampleTokens, fit

PAD = 99


def tokens(*samples: str, sides: int = 1) -> SampleTokens:
    """Samples as letters; capital letters have loss."""
    text = "".join(samples)
    ids = np.array([ord(letter.lower()) for letter in text], np.int32)
    mask = np.array([letter.isupper() for letter in text], np.int8)
    bounds = np.cumsum([0, *map(len, samples)]).astype(np.int64)
    return SampleTokens(ids, mask, bounds, sides)


def rows(
    given: SampleTokens, width: int, rule: OverLength = "drop", usable: list[bool] | None = None
) -> GroupRows:
    groups = (len(given.bounds) - 1) // given.sides
    there = np.ones(groups, bool) if usable is None else np.array(usable)
    return fit(given, there, np.zeros(groups, bool), width, rule, PAD)


def shown(found: GroupRows) -> list[str]:
    """Every row as it was given, without padding."""
    flat = found.ids.reshape(-1, found.ids.shape[2]), found.mask.reshape(-1, found.ids.shape[2])
    return [
        "".join(chr(i).upper() if m else chr(i) for i, m in zip(ids[:n], mask[:n], strict=True))
        for ids, mask, n in zip(*flat, found.lengths.ravel().tolist(), strict=True)
    ]


def reasons(found: GroupRows) -> dict[str, list[int]]:
    return {name: np.flatnonzero(v).tolist() for name, v in found.flags.items() if v.any()}


def test_a_row_may_be_exactly_as_long_as_the_width_and_padding_fills_it() -> None:
    found = rows(tokens("abC", "abcD", "abcdE"), 4)
    assert shown(found) == ["abC", "abcD"]
    assert found.ids[0, 0].tolist() == [97, 98, 99, PAD]
    assert found.mask[0, 0].tolist() == [0, 0, 1, 0]
    assert found.kept.tolist() == [True, True, False]
    assert reasons(found) == {TOO_LONG: [2]}


def test_cutting_the_end_keeps_what_still_teaches() -> None:
    found = rows(tokens("aBcdE", "abcdE", "aB"), 3, "truncate_right")
    assert shown(found) == ["aBc", "aB"]
    assert reasons(found) == {CUT: [0], NO_TARGET: [1]}


def test_a_sample_that_teaches_nothing_or_can_not_be_used_has_no_row() -> None:
    found = rows(tokens("abc", "aB", "Ab", "abcdefg"), 4, usable=[True, True, False, True])
    assert shown(found) == ["aB"]
    assert reasons(found) == {NOTHING: [0, 3]}


def test_both_sides_of_a_pair_have_to_fit_and_to_teach() -> None:
    given = tokens("abC", "abDe", "abC", "abDEFG", "abC", "abd", sides=2)
    found = rows(given, 5)
    assert shown(found) == ["abC", "abDe"]
    assert found.lengths.tolist() == [[3, 4]]
    assert reasons(found) == {TOO_LONG: [1], NOTHING: [2]}


@pytest.mark.parametrize("sides", [("abC", "axD"), ("abC", "abcD"), ("abC", "aD")])
def test_prompts_that_differ_before_the_first_loss_are_refused(sides: tuple[str, str]) -> None:
    found = rows(tokens(*sides, sides=2), 5)
    assert not len(found.ids)
    assert reasons(found) == {PROMPTS_DIFFER: [0]}


def test_sides_that_a_cut_makes_equal_are_no_pair() -> None:
    found = rows(tokens("aBCd", "aBCe", "aBCd", "aBDd", sides=2), 3, "truncate_right")
    assert shown(found) == ["aBC", "aBD"]
    assert reasons(found) == {EQUAL: [0], CUT: [1]}


def test_sides_without_a_target_are_not_counted_as_equal_too() -> None:
    found = rows(tokens("abcD", "abcE", sides=2), 3, "truncate_right")
    assert reasons(found) == {NO_TARGET: [0]}


def test_only_pairs_are_counted_as_pairs() -> None:
    single = {NOTHING, TOO_LONG, CUT, NO_TARGET}
    assert set(rows(tokens("aB"), 4).flags) == single
    assert set(rows(tokens("aB", "aC", sides=2), 4).flags) == single | {EQUAL}
    assert PROMPTS_DIFFER in rows(tokens("aB", "cD", sides=2), 4).flags


def test_what_lost_turns_before_is_counted_as_cut_if_it_is_kept() -> None:
    given = tokens("aB", "aB", "abcdE")
    found = fit(given, np.ones(3, bool), np.array([True, False, True]), 3, "truncate_turns", PAD)
    assert reasons(found) == {CUT: [0], TOO_LONG: [2]}


def test_no_groups_are_no_rows() -> None:
    for sides in (1, 2):
        found = rows(tokens(sides=sides), 4)
        assert found.ids.shape == (0, sides, 4)
        assert not reasons(found)
