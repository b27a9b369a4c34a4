"""The order of documents depends on seed and rows alone, and can be continued from anywhere."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_lib.records import Cursor
from pipeline_lib.shuffling import (
    DOCUMENT_STREAM,
    START,
    Dice,
    Row,
    RowBlock,
    ShuffleBuffer,
    ShuffleState,
    file_order,
    shuffled,
    shuffled_texts,
    source_rng,
)

ROWS = [None if n % 17 == 3 else b"x" * (n % 29) + b"%d" % n for n in range(200)]
BOUNDS = [(1, 10**9), (7, 10**9), (500, 10**9), (50, 300), (50, 1), (200, 2_000)]


def blocks_of(
    rows: Sequence[Row], cuts: Sequence[int], start: Cursor = START
) -> Iterator[RowBlock]:
    """Rows as the blocks of several files: file ``k`` ends at ``cuts[k]``; read from ``start``."""
    edges = [0, *cuts, len(rows)]
    for number, (first, last) in enumerate(itertools.pairwise(edges)):
        skip = start.row if number == start.file else 0
        if number >= start.file and first + skip < last:
            yield RowBlock(number, skip, list(rows[first + skip : last]))


def whole_order(rows: Sequence[Row], capacity: int, size: int) -> list[Row]:
    return list(shuffled_texts(rows, seed=5, capacity=capacity, capacity_bytes=size))


def test_the_generator_is_pcg64_seeded_by_seed_and_stream() -> None:
    mine = source_rng(1337, 1).random_raw(3).tolist()
    same = np.random.PCG64(np.random.SeedSequence([1337, 1])).random_raw(3).tolist()
    assert mine == same
    assert mine != source_rng(1337, 0).random_raw(3).tolist()


def test_the_draws_of_a_seed_never_change() -> None:
    dice = Dice(1337, 1)
    assert [dice.below(1000) for _ in range(8)] == [984, 985, 15, 340, 789, 601, 248, 583]
    assert source_rng(1337, 0).random_raw() == 16198121026341300353


@given(draws=st.integers(0, 9_000), more=st.integers(1, 50))
@settings(max_examples=40)
def test_dice_put_back_by_their_number_of_draws_go_on_alike(draws: int, more: int) -> None:
    dice = Dice(7, 1)
    for _ in range(draws):
        dice.below(10**9)
    again = Dice(7, 1, draws)
    assert [again.below(97) for _ in range(more)] == [dice.below(97) for _ in range(more)]
    assert again.draws == dice.draws == draws + more


def test_a_draw_stays_below_its_bound_even_for_one() -> None:
    dice = Dice(0, 1)
    assert {dice.below(1) for _ in range(100)} == {0}
    assert {dice.below(3) for _ in range(200)} == {0, 1, 2}


def test_shuffled_is_a_permutation_and_leaves_its_input_alone() -> None:
    items = list(range(50))
    mixed = shuffled(items, Dice(1, 0))
    assert sorted(mixed) == items == list(range(50)) != mixed


def test_files_are_sorted_by_name_before_they_are_shuffled() -> None:
    names = [f"part-{n}.parquet" for n in range(12)]
    assert file_order(reversed(names), 3) == file_order(names, 3)
    assert file_order(names, 3) != file_order(names, 4)
    golden = ["part-2.parquet", "part-1.parquet", "part-0.parquet", "part-3.parquet"]
    assert file_order(names[:4], 1337) == golden


@pytest.mark.parametrize(("capacity", "size"), BOUNDS)
def test_every_row_leaves_exactly_once(capacity: int, size: int) -> None:
    order = whole_order(ROWS, capacity, size)
    assert sorted(order, key=repr) == sorted(ROWS, key=repr)


def test_a_buffer_of_one_delays_each_row_by_one() -> None:
    assert whole_order(ROWS, 1, 10**9) == ROWS


def test_a_buffer_larger_than_the_corpus_shuffles_all_of_it() -> None:
    assert whole_order(ROWS, 10_000, 10**9) == shuffled(ROWS, Dice(5, 1))[::-1]


def by_the_rules(rows: Sequence[Row], capacity: int, size: int) -> list[Row]:
    """The order as the documentation words it, without any haste."""
    generator, held, out = source_rng(5, 1), list[Row](), list[Row]()

    def drawn(n: int) -> int:
        return int(generator.random_raw()) * n >> 64

    for row in rows:
        if len(held) == capacity:
            slot = drawn(capacity)
            out.append(held[slot])
            held[slot] = row
        else:
            held.append(row)
        while len(held) > 1 and sum(len(row or b"") for row in held) > size:
            slot = drawn(len(held))
            out.append(held[slot])
            held[slot] = held[-1]
            del held[-1]
    for last in range(len(held) - 1, 0, -1):
        other = drawn(last + 1)
        held[last], held[other] = held[other], held[last]
    return out + held[::-1]


@given(
    rows=st.lists(st.none() | st.binary(max_size=6), max_size=40),
    capacity=st.integers(1, 12),
    size=st.integers(1, 40),
)
@settings(max_examples=100)
def test_the_order_is_the_one_the_rules_describe(rows: list[Row], capacity: int, size: int) -> None:
    assert whole_order(rows, capacity, size) == by_the_rules(rows, capacity, size)


def test_a_buffer_of_one_byte_holds_one_document_at_a_time() -> None:
    buffer, rows = ShuffleBuffer(Dice(5, 1), 50, 1), [b"ab", b"cd", b"ef", b"gh"]
    for _ in buffer.run([RowBlock(0, 0, list(rows))]):
        assert len(buffer.state().buffer) <= 1


@given(
    rows=st.lists(st.none() | st.binary(max_size=6), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    capacity=st.integers(1, 12),
    size=st.integers(1, 40),
)
@settings(max_examples=80)
def test_the_order_does_not_depend_on_where_blocks_end(
    rows: list[Row], cuts: list[int], capacity: int, size: int
) -> None:
    edges = sorted(cut for cut in cuts if cut < len(rows))
    buffer = ShuffleBuffer(Dice(5, 1), capacity, size)
    assert list(buffer.run(blocks_of(rows, edges))) == whole_order(rows, capacity, size)


def continued(state: ShuffleState, rows: Sequence[Row], cuts: list[int], bounds: tuple[int, int]):
    dice = Dice(5, 1, state.draws)
    buffer = ShuffleBuffer.restored(state, dice, *bounds)
    return list(buffer.run(blocks_of(rows, cuts, state.cursor)))


@pytest.mark.parametrize("bounds", BOUNDS)
def test_going_on_behind_any_emitted_row_equals_never_having_stopped(
    bounds: tuple[int, int],
) -> None:
    cuts = [60, 61, 150]
    buffer = ShuffleBuffer(Dice(5, 1), *bounds)
    expected = whole_order(ROWS, *bounds)
    for number, _ in enumerate(buffer.run(blocks_of(ROWS, cuts)), 1):
        assert continued(buffer.state(), ROWS, cuts, bounds) == expected[number:], number


@given(
    rows=st.lists(st.none() | st.binary(max_size=6), min_size=1, max_size=30),
    capacity=st.integers(1, 8),
    size=st.integers(1, 30),
    stop=st.integers(1, 30),
)
@settings(max_examples=80)
def test_a_state_holds_exactly_what_has_not_left_yet(
    rows: list[Row], capacity: int, size: int, stop: int
) -> None:
    buffer = ShuffleBuffer(Dice(5, 1), capacity, size)
    running = buffer.run(blocks_of(rows, [len(rows) // 2]))
    left = [next(running) for _ in range(min(stop, len(rows)))]
    again = continued(buffer.state(), rows, [len(rows) // 2], (capacity, size))
    assert left + again == whole_order(rows, capacity, size)


def test_a_state_shares_no_list_with_the_running_buffer() -> None:
    buffer = ShuffleBuffer(Dice(5, 1), 8, 10**9)
    running = buffer.run([RowBlock(0, 0, list(ROWS))])
    next(running)
    state = buffer.state()
    held = list(state.buffer)
    list(running)
    assert state.buffer == held and len(held) == 8


def test_a_position_is_a_state_without_the_documents() -> None:
    buffer = ShuffleBuffer(Dice(5, 1), 8, 10**9)
    next(buffer.run([RowBlock(0, 0, list(ROWS))]))
    assert buffer.position() == buffer.state()._replace(buffer=[])


def test_lanes_of_one_seed_draw_differently() -> None:
    first, second = (
        list(shuffled_texts(ROWS, seed=5, capacity=20, capacity_bytes=10**9, lane=k))
        for k in (0, 1)
    )
    assert first != second and sorted(first, key=repr) == sorted(second, key=repr)
    for lane, found in enumerate((first, second)):
        dice = Dice(5, DOCUMENT_STREAM + lane)
        assert list(ShuffleBuffer(dice, 20, 10**9).run([RowBlock(0, 0, list(ROWS))])) == found


def test_the_order_of_a_seed_never_changes() -> None:
    rows = [b"%d" % n for n in range(12)]
    order = shuffled_texts(rows, seed=1337, capacity=4, capacity_bytes=10**9)
    assert b" ".join(order) == b"3 4 0 1 5 2 6 9 8 11 10 7"
    order = shuffled_texts(rows, seed=1337, capacity=4, capacity_bytes=3)
    assert b" ".join(order) == b"3 4 0 1 7 2 5 8 10 11 9 6"
