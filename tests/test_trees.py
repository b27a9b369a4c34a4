"""Message trees: one best path each, and every message accounted for."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chats.trees import TREE_COLUMNS, Assembly, best_paths


def assemble(*messages: tuple[Any, ...]) -> Assembly:
    """Messages as (id, parent, rank, deleted, review), the last three optional."""
    filled = [(*message, *(None, False, True)[len(message) - 2 :]) for message in messages]
    names = ("message_id", "parent_id", "rank", "deleted", "review_result")
    return best_paths(dict(zip(names, map(list, zip(*filled, strict=True)), strict=True)))


def test_the_best_ranked_reply_is_followed_to_a_message_without_replies() -> None:
    found = assemble(("r", None), ("a", "r", 1), ("b", "r", 0), ("c", "b"), ("d", "a"))
    assert found.paths == [[0, 2, 3]]
    assert found.counts["beside the best path"] == 2


def test_a_reply_without_a_rank_comes_last_and_rows_decide_between_equals() -> None:
    assert assemble(("r", None), ("a", "r"), ("b", "r", 5)).paths == [[0, 2]]
    assert assemble(("r", None), ("a", "r"), ("b", "r")).paths == [[0, 1]]


def test_rows_of_a_tree_may_lie_anywhere() -> None:
    assert assemble(("c", "b"), ("x", None), ("b", "r"), ("r", None)).paths == [[1], [3, 2, 0]]


def test_deleted_and_rejected_messages_go_with_their_replies() -> None:
    found = assemble(
        ("r", None), ("a", "r", 0, True), ("b", "a"), ("c", "r", 1, False, False), ("d", "r", 2)
    )
    assert found.paths == [[0, 4]]
    assert found.counts["deleted or rejected, with replies"] == 3


def test_a_review_that_is_null_does_not_reject() -> None:
    assert assemble(("r", None, None, False, None)).paths == [[0]]


def test_a_deleted_root_gives_no_path() -> None:
    assert assemble(("r", None, None, True), ("a", "r")).paths == []


def test_orphans_cycles_and_repeated_ids_are_counted() -> None:
    found = assemble(("r", None), ("o", "gone"), ("p", "o"), ("x", "y"), ("y", "x"), ("r", None))
    assert found.paths == [[0]]
    assert found.counts["parent missing, with replies"] == 2
    assert found.counts["in a cycle"] == 2
    assert found.counts["duplicate id"] == 1


def test_no_messages_give_no_paths() -> None:
    assert best_paths({name: [] for name in TREE_COLUMNS}).paths == []


MESSAGES = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.none() | st.integers(0, 11),
        st.none() | st.integers(0, 3),
        st.booleans(),
        st.sampled_from([True, True, False, None]),
    ),
    min_size=1,
    max_size=14,
)


@given(MESSAGES)
def test_the_counts_add_up_to_the_messages_and_paths_go_from_parent_to_reply(
    messages: list[tuple[Any, ...]],
) -> None:
    found = assemble(*messages)
    assert sum(found.counts.values()) == len(messages)
    rows = [row for path in found.paths for row in path]
    assert len(rows) == len(set(rows))
    for path in found.paths:
        assert messages[path[0]][1] is None
        for above, below in pairwise(path):
            assert messages[below][1] == messages[above][0]
