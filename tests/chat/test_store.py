"""Stored conversations as a sequence that reads from disk."""

from pathlib import Path

import numpy as np
import pytest
from chat_world import numbered_chat, stored_conversations, tool_chat, turns

from pipeline_lib.chat.conversation import Pair
from pipeline_lib.chat.store import content_digest
from pipeline_lib.chat.store_format import conversation, tools_of
from pipeline_lib.chat.turns import document


def test_items_slices_and_negative_places_are_those_of_a_sequence(tmp_path: Path) -> None:
    train = stored_conversations(
        tmp_path, {"a": [numbered_chat(1), numbered_chat(2)], "none": [], "b": [numbered_chat(3)]}
    ).train
    assert len(train) == 3
    assert train[-1] == numbered_chat(3) == train[2]
    assert train[:2] == [numbered_chat(1), numbered_chat(2)]
    assert train[-3] == numbered_chat(1) == train[0]
    assert train.counts == {"a": 2, "none": 0, "b": 1}
    for outside in (3, -4):
        with pytest.raises(IndexError, match="of 3"):
            train[outside]


def test_a_pair_is_read_back_whole_and_a_plain_conversation_has_none(tmp_path: Path) -> None:
    pair = Pair(turns("q"), turns("ä", first="assistant"), turns("b", first="assistant"))
    train = stored_conversations(tmp_path, {"one": [numbered_chat(1), pair]}).train
    assert train.pair(0) is None
    assert train.pair(1) == pair
    assert train[1] == turns("q", "ä")


def test_tools_are_read_back_with_a_conversation_a_pair_and_a_batch(tmp_path: Path) -> None:
    talk, other = tool_chat(1), turns("other", first="assistant")
    pair = Pair([*talk[:3]], [*talk[3:]], other, tools=talk.tools)
    train = stored_conversations(tmp_path, {"a": [numbered_chat(1)], "b": [talk, pair]}).train
    assert [*train] == [numbered_chat(1), talk, talk]
    assert [found.tools for found in (train[0], train[1], train[2])] == [None, *[talk.tools] * 2]
    assert train.pair(2) == pair
    batch = train.read(np.array([2, 0, 1]))
    assert [conversation(batch.turns, n) for n in range(3)] == [talk, numbered_chat(1), talk]
    assert [tools_of(batch.turns, n) for n in range(3)] == [talk.tools, None, talk.tools]
    assert conversation(batch.rejected, 0) == other and tools_of(batch.rejected, 0) is None


def test_characters_are_counted_not_bytes(tmp_path: Path) -> None:
    train = stored_conversations(tmp_path, {"one": [turns("é", "漢字")]}).train
    assert train.characters().tolist() == [3]


def test_rows_are_read_in_columns_in_the_order_asked_for(tmp_path: Path) -> None:
    train = stored_conversations(
        tmp_path, {"a": [numbered_chat(1, 2), numbered_chat(2)], "b": [numbered_chat(3)]}
    ).train
    batch = train.read(np.array([2, 0, 2]))
    assert batch.turns.offsets.tolist() == [0, 2, 6, 8]
    assert batch.turns.contents[0] == batch.turns.contents[6] == b"question 3 0"
    assert batch.turns.roles.tolist() == [1, 2, 1, 2, 1, 2, 1, 2]
    assert batch.source.tolist() == [1, 0, 1]
    assert batch.prompt.tolist() == [0, 0, 0]


def test_some_sources_are_a_sequence_of_their_own(tmp_path: Path) -> None:
    sources = {"a": [numbered_chat(1)], "b": [numbered_chat(2)], "c": [numbered_chat(3)]}
    train = stored_conversations(tmp_path, sources).train
    chosen = train.only(["c", "a"])
    assert list(chosen) == [numbered_chat(1), numbered_chat(3)]
    assert chosen.fingerprints == {name: train.fingerprints[name] for name in ("a", "c")}
    for wrong, named in ((["a", "x"], "name x; there is a, b, c"), ([], "nothing"), ("ab", "ab")):
        with pytest.raises(ValueError, match=named):
            train.only(wrong)


def test_flags_are_those_of_the_rows_asked_for(tmp_path: Path) -> None:
    pair = Pair(turns("q"), turns("x", first="assistant"), turns("y", first="assistant"))
    sources = {"a": [numbered_chat(1), document("text")], "b": [pair, document("more")]}
    train = stored_conversations(tmp_path, sources).train
    rows = np.array([3, 0, 2, 1, 1])
    documents = [all(turn["role"] == "assistant" for turn in train[row]) for row in rows.tolist()]
    assert train.documents(rows).tolist() == documents
    pairs = [train.pair(row) is not None for row in rows.tolist()]
    assert train.real_pairs(rows).tolist() == pairs
    assert sum(documents) == 3 and sum(pairs) == 1


def test_nothing_is_read_of_nothing(tmp_path: Path) -> None:
    train = stored_conversations(tmp_path, {"none": []}).train
    assert list(train) == []
    assert train.read(np.empty(0, np.int64)).turns.contents == []
    assert train.characters().tolist() == []


def test_opening_touches_no_part(tmp_path: Path) -> None:
    train = stored_conversations(tmp_path, {"a": [numbered_chat(1)]}).train
    assert train._parts == [None]
    assert train[0] == numbered_chat(1)


def test_each_source_has_a_digest_of_its_own_content(tmp_path: Path) -> None:
    sources = {"a": [numbered_chat(1)], "b": [numbered_chat(2)], "c": [numbered_chat(1)]}
    found = stored_conversations(tmp_path, sources).train.fingerprints
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == found["c"] != found["b"]


def test_the_digest_of_all_sources_follows_content_names_and_order() -> None:
    found = [{"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {"a": "1"}, {"a": "2", "b": "2"}]
    assert len({content_digest(each) for each in found} - {None}) == 4
