"""Message trees: one best path each, a worse answer beside it, every message accounted for."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.trees import TREE_COLUMNS, Assembly, best_paths


def assemble(*messages: tuple[Any, ...]) -> Assembly:
    """Messages as (id, parent, rank, deleted, review), the last three optional.

    Ids in upper case are a prompter's.
    """
    filled = [(*message, *(None, False, True)[len(message) - 2 :]) for message in messages]
    names = ("message_id", "parent_id", "rank", "deleted", "review_result")
    columns = dict(zip(names, map(list, zip(*filled, strict=True)), strict=True))
    roles = ["assistant" if str(i).islower() else "prompter" for i in columns["message_id"]]
    return best_paths(columns | {"role": roles})


def worse_paths(*messages: tuple[Any, ...]) -> list[list[Any]]:
    """The worse paths as ids."""
    found = assemble(*messages)
    assert len(found.worse) == len(found.paths)
    return [[messages[row][0] for row in path] for path in found.worse]


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


def test_the_worst_ranked_sibling_of_the_last_answer_stands_beside_the_best_path() -> None:
    tree = (("Q", None), ("a", "Q", 0), ("b", "Q", 2), ("c", "Q", 1))
    assert worse_paths(*tree) == [["Q", "b"]]
    found = assemble(*tree)
    assert found.counts["ranked below the last answer"] == 1
    assert found.counts["beside the best path"] == 1


def test_only_siblings_of_the_last_answer_count_and_the_talk_before_stays() -> None:
    start = (("Q", None), ("a", "Q", 0), ("b", "Q", 1), ("P", "a"))
    assert worse_paths(*start, ("c", "P")) == [[]]
    assert worse_paths(*start, ("c", "P", 1), ("d", "P", 0)) == [["Q", "a", "P", "c"]]


def test_a_path_that_ends_with_a_question_has_its_pair_at_the_answer_before() -> None:
    assert worse_paths(("Q", None), ("a", "Q", 0), ("b", "Q", 1), ("P", "a")) == [["Q", "b"]]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([("a", "Q"), ("b", "Q")], "no ranks"),
        ([("a", "Q", 0), ("b", "Q")], "a sibling without a rank was not compared"),
        ([("a", "Q", 1), ("b", "Q", 1)], "equal ranks say nothing"),
        ([("a", "Q", 0), ("b", "Q", 1, True)], "deleted"),
        ([("a", "Q", 0), ("b", "Q", 1, False, False)], "the review rejected it"),
        ([("a", "Q", 0), ("B", "Q", 1)], "not an answer"),
        ([("a", "Q", 0)], "alone"),
        ([], "no answer at all"),
    ],
)
def test_without_a_sibling_of_a_worse_rank_there_is_none(
    answers: list[tuple[Any, ...]], why: str
) -> None:
    assert worse_paths(("Q", None), *answers) == [[]], why


def test_of_equally_bad_siblings_the_earlier_row_is_taken() -> None:
    assert worse_paths(("Q", None), ("c", "Q", 2), ("a", "Q", 0), ("b", "Q", 2)) == [["Q", "c"]]


def test_an_answer_without_a_question_has_no_sibling() -> None:
    assert worse_paths(("a", None, 0), ("b", None, 1)) == [[], []]


MESSAGES = st.lists(
    st.tuples(
        st.sampled_from("aBcDefgHij"),
        st.none() | st.sampled_from("aBcDefgHijkL"),
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
    for path in found.paths + [path for path in found.worse if path]:
        assert messages[path[0]][1] is None
        for above, below in pairwise(path):
            assert messages[below][1] == messages[above][0]
    for best, worse in zip(found.paths, found.worse, strict=True):
        assert not worse or (worse[:-1] == best[: len(worse) - 1] and worse[-1] not in best)
