"""One part: what is written is what is read."""

import tempfile
from pathlib import Path

from chat_world import turns
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.conversation import Pair, Turns
from pipeline_lib.chat.store_format import (
    Part,
    as_turns,
    conversation_bytes,
    encode_part,
    in_columns,
    read_part,
    whole,
)
from pipeline_lib.records import ROLES, Turn

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SAID = st.sampled_from([{}, {"learn": False}, {"cut": True}])
TURN = st.builds(
    lambda role, content, said: Turn(role=role, content=content, **said),
    st.sampled_from(ROLES),
    TEXT,
    SAID,
)
TURNS = st.lists(TURN, min_size=1, max_size=4)
CONVERSATION = st.builds(Turns, TURNS) | st.builds(Pair, TURNS, TURNS, TURNS)


@given(st.lists(CONVERSATION, min_size=1, max_size=5))
def test_a_part_gives_back_every_conversation(conversations: list[Turns | Pair]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "part.arrow")
        path.write_bytes(encode_part(conversations))
        part = Part(path)
        assert read_part(path) == conversations
    for row, conversation in enumerate(conversations):
        pair = conversation if isinstance(conversation, Pair) else Pair([], [], [])
        assert as_turns(part.turns.row(row)) == list(whole(conversation))
        assert as_turns(part.rejected.row(row)) == pair.rejected
        assert part.prompt[row] == len(pair.prompt)
        asked = any(turn["role"] == "user" for turn in whole(conversation))
        assert part.document[row] == (not asked)
        assert part.characters[row] == sum(len(t["content"]) for t in whole(conversation))


@given(CONVERSATION, CONVERSATION)
def test_different_conversations_have_different_bytes(
    left: Turns | Pair, right: Turns | Pair
) -> None:
    assert (conversation_bytes(left) == conversation_bytes(right)) == (left == right)


def test_where_a_text_is_cut_into_turns_shows_in_the_bytes() -> None:
    spellings = [Turns(turns("ab", "c")), Turns(turns("a", "bc")), Turns(turns("abc", ""))]
    assert len({conversation_bytes(spelling) for spelling in spellings}) == 3


def test_no_rows_are_empty_columns() -> None:
    assert in_columns([]).offsets.tolist() == [0]
