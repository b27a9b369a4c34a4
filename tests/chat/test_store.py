"""Stored conversations as a sequence that reads from disk."""

from pathlib import Path

import numpy as np
import pytest
from chat_world import chat_of, stored, turns

from pipeline_lib.chat.conversation import Pair


def test_items_slices_and_negative_places_are_those_of_a_sequence(tmp_path: Path) -> None:
    train = stored(tmp_path, {"a": [chat_of(1), chat_of(2)], "none": [], "b": [chat_of(3)]}).train
    assert len(train) == 3
    assert train[-1] == chat_of(3) == train[2]
    assert train[:2] == [chat_of(1), chat_of(2)]
    assert train.counts == {"a": 2, "none": 0, "b": 1}
    for outside in (3, -4):
        with pytest.raises(IndexError, match="of 3"):
            train[outside]


def test_a_pair_is_read_back_whole_and_a_plain_conversation_has_none(tmp_path: Path) -> None:
    pair = Pair(turns("q"), turns("ä", first="assistant"), turns("b", first="assistant"))
    train = stored(tmp_path, {"one": [chat_of(1), pair]}).train
    assert train.pair(0) is None
    assert train.pair(1) == pair
    assert train[1] == turns("q", "ä")


def test_characters_are_counted_not_bytes(tmp_path: Path) -> None:
    train = stored(tmp_path, {"one": [turns("é", "漢字")]}).train
    assert train.characters().tolist() == [3]


def test_rows_are_read_in_columns_in_the_order_asked_for(tmp_path: Path) -> None:
    train = stored(tmp_path, {"a": [chat_of(1, 2), chat_of(2)], "b": [chat_of(3)]}).train
    batch = train.read(np.array([2, 0, 2]))
    assert batch.turns.offsets.tolist() == [0, 2, 6, 8]
    assert batch.turns.contents[0] == batch.turns.contents[6] == b"question 3 0"
    assert batch.turns.roles.tolist() == [1, 2, 1, 2, 1, 2, 1, 2]
    assert batch.source.tolist() == [1, 0, 1]
    assert batch.prompt.tolist() == [0, 0, 0]


def test_nothing_is_read_of_nothing(tmp_path: Path) -> None:
    train = stored(tmp_path, {"none": []}).train
    assert list(train) == []
    assert train.read(np.empty(0, np.int64)).turns.contents == []
    assert train.characters().tolist() == []


def test_opening_touches_no_part(tmp_path: Path) -> None:
    train = stored(tmp_path, {"a": [chat_of(1)]}).train
    assert train._parts == [None]
    assert train[0] == chat_of(1)
