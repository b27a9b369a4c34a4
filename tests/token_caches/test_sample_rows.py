"""What is stored of samples and pairs, and what fits a width; the rest is under one reason."""

import numpy as np
import pytest
from row_tables import RowTable, row_table

from pipeline_lib.token_caches.fitted import (
    CUT,
    EQUAL,
    NO_TARGET,
    NOTHING,
    TOO_LONG,
    Fitted,
    OverLength,
    SampleTokens,
)
from pipeline_lib.token_caches.sample_rows import PROMPTS_DIFFER, StoredGroups, to_store

PAD = 99


def tokens(*samples: str, sides: int = 1) -> SampleTokens:
    """Samples as letters; capital letters have loss."""
    text = "".join(samples)
    ids = np.array([ord(letter.lower()) for letter in text], np.int32)
    mask = np.array([letter.isupper() for letter in text], np.int8)
    bounds = np.cumsum([0, *map(len, samples)]).astype(np.int64)
    return SampleTokens(ids, mask, bounds, sides)


def rows(
    given: SampleTokens,
    width: int,
    rule: OverLength = "drop",
    usable: list[bool] | None = None,
    lost_turns: list[bool] | None = None,
) -> RowTable:
    groups = (len(given.bounds) - 1) // given.sides
    there = np.ones(groups, bool) if usable is None else np.array(usable)
    cut = np.zeros(groups, bool) if lost_turns is None else np.array(lost_turns)

    def make(dropped: int | None) -> Fitted:
        found = to_store(given, there, cut, dropped)
        return Fitted(
            found.tokens, found.records, np.flatnonzero(found.kept), groups, dict(found.flags)
        )

    return row_table(make, width, rule, PAD)


def shown(found: RowTable) -> list[str]:
    """Every row as it was given, without padding."""
    width = found.ids.shape[-1]
    flat = found.ids.reshape(-1, width), found.mask.reshape(-1, width)
    return [
        "".join(chr(i).upper() if m else chr(i) for i, m in zip(ids[:n], mask[:n], strict=True))
        for ids, mask, n in zip(*flat, found.lengths.ravel().tolist(), strict=True)
    ]


def reasons(found: RowTable) -> dict[str, list[int]]:
    return {name: np.flatnonzero(v).tolist() for name, v in found.flags.items() if v.any()}


def test_a_row_may_be_exactly_as_long_as_the_width_and_padding_fills_it() -> None:
    found = rows(tokens("abC", "abcD", "abcdE"), 4)
    assert shown(found) == ["abC", "abcD"]
    assert found.ids[0].tolist() == [97, 98, 99, PAD]
    assert found.mask[0].tolist() == [0, 0, 1, 0]
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
    found = rows(given, 3, "truncate_turns", lost_turns=[True, False, True])
    assert reasons(found) == {CUT: [0], TOO_LONG: [2]}


def test_a_pair_that_lost_turns_and_is_not_kept_is_under_one_reason() -> None:
    given = tokens("aB", "aC", "aB", "aB", "aB", "cD", sides=2)
    found = rows(given, 3, "truncate_turns", lost_turns=[True] * 3)
    assert reasons(found) == {CUT: [0], EQUAL: [1], PROMPTS_DIFFER: [2]}


def test_no_groups_are_no_rows() -> None:
    for sides in (1, 2):
        found = rows(tokens(sides=sides), 4)
        assert found.ids.shape == ((0, 4) if sides == 1 else (0, 2, 4))
        assert not reasons(found)


def test_a_sample_is_stored_whole_and_its_record_tells_where_and_what() -> None:
    found = to_store(tokens("abC", "ab", "aBcD"), np.ones(3, bool))
    assert found.kept.tolist() == [True, False, True]
    assert "".join(map(chr, found.tokens.ids)) == "abcabcd"
    assert found.records["end"].tolist() == [[3], [7]]
    assert found.records["first"].tolist() == [[2], [1]]
    assert found.records["trained"].tolist() == [[1], [2]]


def _first_difference(one: str, other: str) -> int:
    found = (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(found, min(len(one), len(other)))


def test_the_record_of_a_pair_tells_where_its_sides_part() -> None:
    pairs = [("abC", "abD"), ("abCd", "abCe"), ("abC", "abCD"), ("abCDE", "abC"), ("aB", "aC")]
    found: StoredGroups = to_store(tokens(*sum(pairs, ()), sides=2), np.ones(len(pairs), bool))
    assert found.records["differs"].tolist() == [_first_difference(*pair) for pair in pairs]
    assert found.records["end"].ravel().tolist() == np.cumsum([*map(len, sum(pairs, ()))]).tolist()


def test_every_width_of_one_store_gives_what_it_gives_alone() -> None:
    """What is told from records alone is what the tokens themselves tell."""
    chance = np.random.default_rng(1)
    prompts = ["".join(chance.choice(list("ab"), 3)) for _ in range(60)]
    sides = [p + "".join(chance.choice(list("XY"), chance.integers(1, 6))) for p in prompts * 2]
    pairs = [side for pair in zip(sides[:60], sides[60:], strict=True) for side in pair]
    for width in range(1, 11):
        found = rows(tokens(*pairs, sides=2), width, "truncate_right")
        cut = [(a[:width], b[:width]) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
        whole = [a != b for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
        good = [n for n, (a, b) in enumerate(cut) if whole[n] and a != b and width > 3]
        assert found.owner.tolist() == good
