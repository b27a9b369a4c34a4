"""Rejected answers by rule: other than the chosen one, and decided by content alone."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from chat_world import stored_conversations, turns
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.conversation import Pair
from pipeline_lib.chat.store_format import as_turns
from pipeline_lib.chat.synthetic_rejections import shuffled_words, with_rejected
from pipeline_lib.records import Turn


@given(st.lists(st.sampled_from(["a", "b", "ccc", "é", "1"]), max_size=12))
def test_the_words_are_the_same_in_another_order_or_there_is_none(words: list[str]) -> None:
    content = " ".join(words).encode()
    shuffled = shuffled_words(content)
    if len(set(words)) < 2:
        assert shuffled is None
    else:
        assert shuffled is not None
        assert sorted(shuffled.decode().split()) == sorted(words)
        assert shuffled.decode().split() != words


@pytest.mark.parametrize("content", ["word", "same same same", "a a", ""])
def test_an_answer_without_another_order_has_no_rejected_one(content: str) -> None:
    assert shuffled_words(content.encode()) is None


def test_the_order_is_decided_by_the_content() -> None:
    text = b"one two three four five six"
    assert shuffled_words(text) == shuffled_words(bytes(text))


def test_answers_of_one_length_are_shuffled_each_in_its_own_way() -> None:
    """Otherwise a model could tell a made answer by the places of its words."""
    orders = set()
    for number in range(20):
        words = [f"{number}-{place}" for place in range(8)]
        shuffled = shuffled_words(" ".join(words).encode())
        assert shuffled is not None
        orders.add(tuple(words.index(word) for word in shuffled.decode().split()))
    assert len(orders) == 20


def test_real_pairs_stay_and_others_get_their_last_answer_shuffled(tmp_path: Path) -> None:
    pair = Pair(turns("q"), turns("good", first="assistant"), turns("bad", first="assistant"))
    plain = turns("q", "first answer", "more", "second answer here")
    train = stored_conversations(
        tmp_path, {"one": [pair, plain, turns("a document", first="assistant")]}
    ).train
    batch = with_rejected(train.read(np.arange(3)))
    assert batch.prompt.tolist() == [1, 3, 0]
    assert batch.rejected.offsets.tolist() == [0, 1, 2, 3]
    assert batch.rejected.contents[0] == b"bad"
    assert sorted(batch.rejected.contents[1].split()) == [b"answer", b"here", b"second"]


def test_every_conversation_has_its_own_rejected_turns_wherever_it_stands(tmp_path: Path) -> None:
    def answers(*contents: str) -> list[Turn]:
        return turns(*contents, first="assistant")

    silent = Turn(role="assistant", content="not trained at all", learn=False)
    results = [
        Pair(turns("q"), answers("good"), answers("bad", "why", "because")),
        turns("q", "word"),
        turns("q", "three words here"),
        Pair(turns("q"), answers("fine", "more", "yes"), answers("poor")),
        [*turns("q"), silent],
        Pair(turns("q"), answers("a"), answers("b", "c", "d")),
    ]
    train = stored_conversations(tmp_path, {"one": results}).train
    made = with_rejected(train.read(np.arange(len(train)))).rejected
    found = [
        as_turns((made.contents[a:b], made.roles[a:b], made.learn[a:b]))
        for a, b in pairwise(made.offsets.tolist())
    ]
    assert [found[row] for row in (0, 3, 5)] == [results[row].rejected for row in (0, 3, 5)]
    assert found[1] == []
    for row in (2, 4):
        (turn,) = found[row]
        assert sorted(turn["content"].split()) == sorted(results[row][1]["content"].split())
        assert turn | {"content": ""} == results[row][1] | {"content": ""}
