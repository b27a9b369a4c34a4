"""One part: what is written is what is read."""

import io
import json
import tempfile
from pathlib import Path

import pyarrow as pa
from chat_world import turns
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.conversation import Pair, Turns
from pipeline_lib.chat.store_format import (
    Part,
    as_turns,
    conversation,
    conversation_bytes,
    encode_part,
    in_columns,
    read_part,
    tools_of,
    whole,
)
from pipeline_lib.records import ROLES, Turn

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SAID = st.sampled_from([{}, {"learn": False}, {"cut": True}])
ARGUMENTS = st.sampled_from(
    ["", "{}", "né", {}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": [None, {"c": -0.0}]}]
)
CALL = st.tuples(ARGUMENTS, st.sampled_from([{}, {"id": "1"}, {"id": "22"}])).map(
    lambda said: {"type": "function", **said[1], "function": {"name": "f", "arguments": said[0]}}
)
FIELDS = st.sampled_from([{}, {"name": "f"}, {"name": "", "tool_call_id": "é"}]) | st.lists(
    CALL, min_size=1, max_size=2
).map(lambda calls: {"tool_calls": calls})
TURN = st.builds(
    lambda role, content, said, fields: Turn(role=role, content=content, **said, **fields),
    st.sampled_from(ROLES),
    TEXT,
    SAID,
    FIELDS,
)
TURNS = st.lists(TURN, min_size=1, max_size=4)
TOOLS = st.sampled_from([None, [{}], [{"b": 1, "a": None}], [{"a": None, "b": 1}, {"é": True}]])
CONVERSATION = st.builds(Turns, TURNS, tools=TOOLS) | st.builds(
    Pair, TURNS, TURNS, TURNS, tools=TOOLS
)


def written(found: Turns | Pair) -> str:
    """All that a conversation says, to the letter: with the order of its keys, 1 apart from 1.0."""
    sides = (found.prompt, found.rejected) if isinstance(found, Pair) else ()
    return json.dumps([*sides, whole(found), found.tools])


@given(st.lists(CONVERSATION, min_size=1, max_size=3))
def test_a_part_gives_back_every_conversation(conversations: list[Turns | Pair]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "part.arrow")
        path.write_bytes(encode_part(conversations))
        part = Part(path)
        assert [*map(written, read_part(path))] == [*map(written, conversations)]
    batch = in_columns(part.turns.row(row) for row in range(len(conversations)))
    assert len(batch.fields) == len(batch.contents) == batch.offsets[-1]
    for row, given_one in enumerate(conversations):
        pair = given_one if isinstance(given_one, Pair) else Pair([], [], [])
        assert conversation(batch, row) == list(whole(given_one))
        assert tools_of(batch, row) == given_one.tools
        assert as_turns(part.rejected.row(row)) == pair.rejected
        assert part.prompt[row] == len(pair.prompt)
        asked = any(turn["role"] == "user" for turn in whole(given_one))
        assert part.document[row] == (not asked)
        assert part.characters[row] == sum(len(t["content"]) for t in whole(given_one))


@given(CONVERSATION, CONVERSATION)
def test_different_conversations_have_different_bytes(
    left: Turns | Pair, right: Turns | Pair
) -> None:
    same = written(left) == written(right) and type(left) is type(right)
    assert (conversation_bytes(left) == conversation_bytes(right)) == same


class Bytes:
    """Reads the bytes of a conversation from their description alone."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def number(self, size: int) -> int:
        return int.from_bytes(self._file.read(size), "little")

    def text(self) -> str:
        return self._file.read(self.number(8)).decode()

    def turn(self) -> Turn:
        role, bits = self._file.read(2)
        said = {0: {"learn": False}, 1: {"cut": True}, 3: {}}[bits & 3]
        turn = Turn(role=ROLES[role], content=self.text(), **said)
        return turn | json.loads(self.text()) if bits & 4 else turn

    def conversation(self) -> str:
        prompt = self.number(4)
        tools = json.loads(self.text()) if prompt >> 31 else None
        turns, rejected = ([self.turn() for _ in range(self.number(4))] for _ in range(2))
        assert self._file.read() == b""
        size = prompt & ~(1 << 31)
        pair = Pair(turns[:size], turns[size:], rejected, tools=tools)
        return written(pair if size else Turns(turns, tools=tools))


@given(CONVERSATION)
def test_the_bytes_of_a_conversation_say_all_of_it(given_one: Turns | Pair) -> None:
    assert Bytes(conversation_bytes(given_one)).conversation() == written(given_one)


def calling(arguments: object, **more: object) -> Turns:
    """A conversation with a call, one difference away from the others."""
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}, **more}
    return Turns([*turns("q"), Turn(role="assistant", content="", tool_calls=[call])])


def test_every_byte_about_tools_shows_in_the_bytes_of_a_conversation() -> None:
    plain = turns("q", "a")
    other = [
        *(calling(a) for a in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2}, "{}", {})),
        *(calling({}, id=number) for number in ("1", "2")),
        *(Turns(plain, tools=[{"name": name}]) for name in ("f", "g")),
        Turns(plain),
        *(Turns([plain[0], plain[1] | {"name": name}]) for name in ("f", "g")),
        Turns([plain[0], plain[1] | {"tool_call_id": "f"}]),
    ]
    assert len({conversation_bytes(one) for one in other}) == len(other)


def test_a_part_without_tools_has_no_column_for_them() -> None:
    def names(conversations: list[Turns | Pair]) -> list[str]:
        return pa.ipc.open_file(encode_part(conversations)).schema.names

    plain = [Turns(turns("q", "a")), Pair(turns("q"), turns("a"), turns("b"))]
    assert names([*plain, Turns(turns("q"), tools=[{}])]) == [*names([*plain]), "tools"]
    called = calling({})
    rejecting = Pair(turns("q"), turns("a", first="assistant"), [*called[1:]])
    for extended in (called, rejecting):
        assert names([*plain, extended]) == [*names([*plain]), "tools"]


def test_where_a_text_is_cut_into_turns_shows_in_the_bytes() -> None:
    spellings = [Turns(turns("ab", "c")), Turns(turns("a", "bc")), Turns(turns("abc", ""))]
    assert len({conversation_bytes(spelling) for spelling in spellings}) == 3


def test_no_rows_are_empty_columns() -> None:
    assert in_columns([]).offsets.tolist() == [0]
