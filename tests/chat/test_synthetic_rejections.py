"""Rejected answers by rule: other than the chosen one, and decided by content alone."""

import re
from pathlib import Path

import numpy as np
import pytest
from chat_world import stored_conversations, tool_chat, turns
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.conversation import Pair, Turns
from pipeline_lib.chat.store_format import conversation
from pipeline_lib.chat.synthetic_rejections import MOVED, shuffled_units, with_rejected
from pipeline_lib.records import Turn


@given(st.lists(st.sampled_from(["a", "b", "ccc", "é", "1"]), max_size=12))
def test_the_words_are_the_same_in_another_order_or_there_is_none(words: list[str]) -> None:
    shuffled = shuffled_units(" ".join(words).encode())
    most = max(map(words.count, words), default=0)
    possible = bool(words) and 2 * (len(words) - most) >= MOVED * len(words)
    assert (shuffled is not None) == possible
    if shuffled is not None:
        made = shuffled.decode().split()
        assert sorted(made) == sorted(words)
        assert sum(map(str.__ne__, made, words)) >= MOVED * len(words)


def test_where_hardly_any_order_moves_enough_one_is_found_all_the_same() -> None:
    for number in range(20):
        words = [f"a{number}"] * 24 + [f"b{number}"] * 8  # each b has to move
        shuffled = shuffled_units(" ".join(words).encode())
        assert shuffled is not None
        made = shuffled.decode().split()
        assert sorted(made) == words
        assert sum(map(str.__ne__, made, words)) >= MOVED * len(words)


HAN = re.compile("[一-鿿ก-๎ぁ-ヿ].{3}")
LAYOUT = re.compile(r"[\s.,;:!?|*#`()（）。，、-]")


@pytest.mark.parametrize(
    "text",
    [
        "今天天气很好，我们去公园吧。\n\n第二段在这里，也很长。",
        "東京は日本の首都です。\nカタカナも、ひらがなも。",
        "วันนี้อากาศดีมาก\n\nเราไปสวนสาธารณะกัน",
        "ພາສາລາວ ແມ່ນ ພາສາ\nທີ່ສອງ",
        "ភាសាខ្មែរ\nជាភាសា",
        "မြန်မာဘာသာ\nစကား",
        "हिन्दी में यह एक वाक्य है।\nदूसरा वाक्य",
        "# Title here\n\n- first item, **bold**\n- second one (small)\n\n1. one\n2. two",
        "| name | size |\n|---|---|\n| owl | big |\n\n```py\ndef f(x):\n    return x + 1\n```",
    ],
)
def test_only_what_is_said_moves_and_the_layout_stays(text: str) -> None:
    shuffled = shuffled_units(text.encode())
    assert shuffled is not None
    made = shuffled.decode()
    assert made != text and sorted(made) == sorted(text)
    assert LAYOUT.findall(made) == LAYOUT.findall(text)
    assert not any(clause in made for clause in re.split(r"[，。、\n]", text) if HAN.match(clause))
    for line, old in zip(made.split("\n"), text.split("\n"), strict=True):
        assert line[:1].isspace() == old[:1].isspace()


@pytest.mark.parametrize(
    "frame", ["<think>\n{}\n</think>\n\n{}", "1. {}\n2. {}", "```sh\n{}\n```\n{}"]
)
def test_marks_that_hold_a_text_together_are_not_its_words(frame: str) -> None:
    said = ["alpha beta gamma", "delta epsilon zeta"]
    shuffled = shuffled_units(frame.format(*said).encode())
    assert shuffled is not None
    before = re.escape(frame).replace(r"\{\}", "(.*)")
    assert re.fullmatch(before, shuffled.decode())


def test_two_paragraphs_in_another_order_are_no_rejected_answer() -> None:
    first, second = "你好，我可以帮你。", "请告诉我问题。"
    shuffled = shuffled_units(f"{first}\n\n{second}".encode())
    assert shuffled is not None
    assert not {first, second} & {*shuffled.decode().split("\n\n")}


@pytest.mark.parametrize("content", ["word", "same same same", "a a", "", "a a a a b", "...", "好"])
def test_an_answer_without_another_order_has_no_rejected_one(content: str) -> None:
    assert shuffled_units(content.encode()) is None


def test_the_order_is_decided_by_the_content() -> None:
    text = b"one two three four five six"
    assert shuffled_units(text) == shuffled_units(bytes(text))


def test_answers_of_one_length_are_shuffled_each_in_its_own_way() -> None:
    """Otherwise a model could tell a made answer by the places of its words."""
    orders = set()
    for number in range(20):
        words = [f"{number}-{place}" for place in range(8)]
        shuffled = shuffled_units(" ".join(words).encode())
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


def test_an_answer_that_calls_tools_has_no_made_rival(tmp_path: Path) -> None:
    talk = tool_chat(1, "one two three")
    calling = Turns([talk[0], talk[1] | {"content": "some words before it"}], tools=talk.tools)
    train = stored_conversations(tmp_path, {"one": [calling, talk]}).train
    batch = with_rejected(train.read(np.arange(2)))
    assert batch.prompt.tolist() == [1, 3]
    none, made = (conversation(batch.rejected, number) for number in range(2))
    assert none == [] and sorted(made[0]["content"].split()) == ["one", "three", "two"]


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
    found = [conversation(made, number) for number in range(len(results))]
    assert [found[row] for row in (0, 3, 5)] == [results[row].rejected for row in (0, 3, 5)]
    assert found[1] == []
    for row in (2, 4):
        (turn,) = found[row]
        assert sorted(turn["content"].split()) == sorted(results[row][1]["content"].split())
        assert turn | {"content": ""} == results[row][1] | {"content": ""}
