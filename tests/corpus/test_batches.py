"""Rows become batches whose borders, counts and digest depend on the rows alone."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_lib import selection
from pipeline_lib.corpus.batches import (
    Batcher,
    DocumentBatch,
    Probing,
    VisitCounts,
    is_blank,
)
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.shuffling import Dice, Row, RowBlock, ShuffleBuffer

RECIPE = Recipe(
    dataset="folder", seed=3, val_fraction=0.3, tokenization_batch_size=4,
    tokenization_batch_bytes=1 << 20,
)  # fmt: skip
NOTHING = VisitCounts()
NEVER = lambda: False  # noqa: E731


def batches(
    rows: Sequence[Row], recipe: Recipe = RECIPE, seen: VisitCounts = NOTHING
) -> list[DocumentBatch]:
    shuffle = ShuffleBuffer(Dice(3, 1), 1, 10**9)
    return list(
        Batcher(recipe, seen).batches(shuffle, shuffle.run([RowBlock(0, 0, list(rows))]), NEVER)
    )


def in_visited_order(batch: DocumentBatch) -> list[bytes]:
    return [batch.texts[index] for index in np.argsort(batch.positions)]


@pytest.mark.parametrize(
    "text", ["", " ", "\n\t\r\x0b\x0c", "\u00a0", "\u2003\u3000\u2028\u2029", "\x1c\x1f\x85"]
)
def test_white_space_of_any_script_is_blank(text: str) -> None:
    assert is_blank(text.encode())


@pytest.mark.parametrize("text", ["a", " a", "\u3000 語", "\u200b", "\ufeff", "\x00", "😀", "."])
def test_anything_visible_or_not_white_space_is_text(text: str) -> None:
    assert not is_blank(text.encode())


@given(st.text(max_size=12))
def test_blank_means_what_python_calls_white_space(text: str) -> None:
    assert is_blank(text.encode()) == (not text.strip())


@pytest.mark.parametrize("lead", range(58, 68))
@pytest.mark.parametrize("last", ["", "a", "語", "\u3000", "😀", "\x85"])
def test_how_much_white_space_comes_first_makes_no_difference(lead: int, last: str) -> None:
    for text in (" " * lead + last, "\u00a0" * lead + last, " " * lead + last + "\n" * lead):
        assert is_blank(text.encode()) == (not text.strip())


def test_nulls_empty_and_blank_rows_are_counted_and_skipped() -> None:
    found = batches([b"", None, b"   ", b"\n", b"Real one.", b"", b"Real two."])
    assert [text for batch in found for text in in_visited_order(batch)] == [
        b"Real one.", b"Real two.",
    ]  # fmt: skip
    assert found[-1].seen[:3] == (7, 1, 4)


def test_the_source_digest_folds_every_visited_row_in_order() -> None:
    state = bytes(32)
    for row in (b"one", None, b"  ", b"two"):
        length = 2**64 - 1 if row is None else len(row)
        identity = b"" if row is None else hashlib.sha256(b"3\0" + row).digest()
        state = hashlib.sha256(state + length.to_bytes(8, "little") + identity).digest()
    assert batches([b"one", None, b"  ", b"two"])[-1].seen.source_digest == state.hex()


def test_counts_and_digest_go_on_from_where_they_stood() -> None:
    rows = [b"%d" % n if n % 3 else None for n in range(20)]
    whole = batches(rows)[-1].seen
    half = batches(rows[:8])[-1].seen
    assert batches(rows[8:], seen=half)[-1].seen == whole


def test_a_batch_ends_after_its_number_of_rows_skipped_ones_included() -> None:
    found = batches([b"x", None, b" ", b"y", b"z"])
    assert [batch.seen.rows for batch in found] == [4, 5]


def test_a_batch_ends_with_the_row_that_fills_its_bytes() -> None:
    recipe = Recipe(dataset="folder", tokenization_batch_size=99, tokenization_batch_bytes=10)
    found = batches([b"x" * 6, b"y" * 6, b"z" * 50, b"a" * 9, b"b"], recipe)
    assert [batch.seen.rows for batch in found] == [2, 3, 5]


def test_a_batch_of_nothing_but_blanks_still_counts() -> None:
    found = batches([None, b"", None, b" "])
    assert len(found) == 1 and found[0].texts == [] and found[0].seen.rows == 4


@given(st.lists(st.text(min_size=1, max_size=5).map(str.encode), max_size=20))
@settings(max_examples=50)
def test_every_text_is_on_the_side_its_content_says(rows: list[bytes]) -> None:
    for batch in batches(rows):
        sides = [selection.split_for(text.decode(), 3, 0.3) for text in batch.texts]
        assert sides == ["train"] * batch.train + ["val"] * (len(sides) - batch.train)


def test_equal_texts_fall_on_one_side_whatever_stands_between() -> None:
    rows = [b"%d" % (n % 7) for n in range(70)]
    sides: dict[bytes, set[bool]] = {}
    for batch in batches(rows):
        for index, text in enumerate(batch.texts):
            sides.setdefault(text, set()).add(index < batch.train)
    assert all(len(found) == 1 for found in sides.values()) and len(sides) == 7


def test_the_shuffle_state_is_complete_only_where_a_commit_is_due() -> None:
    shuffle = ShuffleBuffer(Dice(3, 1), 8, 10**9)
    rows = shuffle.run([RowBlock(0, 0, [b"%d" % n for n in range(40)])])
    due = iter([False, True] * 10)
    found = list(Batcher(RECIPE).batches(shuffle, rows, due.__next__))
    assert [batch.commit for batch in found] == [False, True] * 5
    assert [len(batch.shuffle.buffer) for batch in found] == [0, 8, 0, 8, 0, 8, 0, 8, 0, 0]


def test_probes_are_picked_by_identity_and_only_among_short_texts() -> None:
    recipe = Recipe(dataset="folder", seed=3, tokenization_batch_size=20_000)
    rows = [b"%d" % n for n in range(20_000)]
    picked = [batch.texts[index] for batch in batches(rows, recipe) for index in batch.probes]
    assert 0 < len(picked) < 40
    again = batches([text + b" " * (64 << 10) for text in picked[:2]], recipe)
    assert [batch.probes for batch in again] == [[]]
    reordered = batches(rows[::-1], recipe)
    assert {batch.texts[i] for batch in reordered for i in batch.probes} == set(picked)


def test_a_probe_may_be_as_long_as_it_is_allowed_to_be() -> None:
    texts = [b"x" * size for size in (1, 9, 10, 11)]
    shuffle = ShuffleBuffer(Dice(3, 1), 1, 10**9)
    rows = shuffle.run([RowBlock(0, 0, [*texts])])
    (found,) = Batcher(RECIPE, probing=Probing(every=1, longest=10)).batches(shuffle, rows, NEVER)
    assert {len(found.texts[index]) for index in found.probes} == {1, 9, 10}
