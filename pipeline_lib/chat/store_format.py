"""One part of the stored conversations: an Arrow IPC file with one record batch.

Columns: the turns of each conversation, each with its role, its content and where loss falls on it
(``LEARN_CONTENT``, ``LEARN_END``); for a pair, the rejected continuation and the number of prompt
turns; the number of characters; whether it is a document, which has no user turn. A part is written
once and read by memory-mapping.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline_lib.chat.conversation import Pair, Turns
from pipeline_lib.records import LEARN_ALL, LEARN_CONTENT, ROLES, Turn, TurnBatch

_TURN = pa.struct([("role", pa.int8()), ("content", pa.large_string()), ("learn", pa.int8())])
_TURNS = pa.large_list(_TURN)
PART_SCHEMA = pa.schema(
    [
        ("turns", _TURNS),
        ("rejected", _TURNS),
        ("prompt", pa.int32()),
        ("characters", pa.int64()),
        ("document", pa.int8()),
    ]
)


RowTurns = tuple[list[bytes], NDArray[np.int8], NDArray[np.int8]]
"""Contents (UTF-8), roles (int8) and ``learn`` (int8) of one conversation."""


def in_columns(rows: Iterable[RowTurns]) -> TurnBatch:
    """Put single conversations into columns."""
    contents: list[bytes] = []
    roles: list[NDArray[np.int8]] = [np.empty(0, np.int8)]
    learn, offsets = [roles[0]], [0]
    for texts, codes, learned in rows:
        contents += texts
        roles.append(codes)
        learn.append(learned)
        offsets.append(len(contents))
    ends = np.array(offsets, np.int64)
    return TurnBatch(contents, np.concatenate(roles), np.concatenate(learn), ends)


def as_turns(row: RowTurns) -> list[Turn]:
    """One conversation as a list of turns."""
    contents, roles, learn = row
    every = zip(roles.tolist(), contents, learn.tolist(), strict=True)
    return [_as_turn(role, content.decode(), bits) for role, content, bits in every]


def _as_turn(role: int, content: str, bits: int) -> Turn:
    turn = Turn(role=ROLES[role], content=content)
    if not bits & LEARN_CONTENT:
        turn["learn"] = False
    elif bits != LEARN_ALL:
        turn["cut"] = True
    return turn


def learn_bits(turn: Turn) -> int:
    """Where loss falls on a turn if it is an assistant's."""
    if not turn.get("learn", True):
        return 0
    return LEARN_CONTENT if turn.get("cut") else LEARN_ALL


def is_document(conversation: Sequence[Turn]) -> bool:
    """Whether a conversation answers nobody, as what ``document`` returns."""
    return all(turn["role"] != "user" for turn in conversation)


def whole(conversation: Turns | Pair) -> list[Turn]:
    """The turns of a conversation; of a pair, prompt and chosen continuation."""
    if isinstance(conversation, Pair):
        return [*conversation.prompt, *conversation.chosen]
    return conversation


def encode_part(conversations: Sequence[Turns | Pair]) -> pa.Buffer:
    """The file content of one part."""
    pairs = [c if isinstance(c, Pair) else Pair([], [], []) for c in conversations]
    columns = [
        _turn_column([whole(c) for c in conversations]),
        _turn_column([pair.rejected for pair in pairs]),
        pa.array([len(pair.prompt) for pair in pairs], pa.int32()),
        pa.array([_characters(whole(c)) for c in conversations], pa.int64()),
        pa.array([int(is_document(whole(c))) for c in conversations], pa.int8()),
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, PART_SCHEMA) as writer:
        writer.write_batch(pa.record_batch(columns, schema=PART_SCHEMA))
    return sink.getvalue()


def _turn_column(conversations: Sequence[Sequence[Turn]]) -> pa.LargeListArray:
    offsets = np.cumsum([0, *map(len, conversations)], dtype=np.int64)
    turns = [turn for conversation in conversations for turn in conversation]
    roles = pa.array([ROLES.index(turn["role"]) for turn in turns], pa.int8())
    contents = pa.array([turn["content"] for turn in turns], pa.large_string())
    learn = pa.array([learn_bits(turn) for turn in turns], pa.int8())
    flat = pa.StructArray.from_arrays([roles, contents, learn], fields=list(_TURN))
    return pa.LargeListArray.from_arrays(offsets, flat, type=_TURNS)


def _characters(turns: Sequence[Turn]) -> int:
    return sum(len(turn["content"]) for turn in turns)


def conversation_bytes(conversation: Turns | Pair) -> bytes:
    """The bytes of a conversation for digests; a length stands before each list and content."""
    pair = conversation if isinstance(conversation, Pair) else Pair([], [], [])
    out = [len(pair.prompt).to_bytes(4, "little")]
    for turns in (whole(conversation), pair.rejected):
        out.append(len(turns).to_bytes(4, "little"))
        for turn in turns:
            content = turn["content"].encode()
            kind = bytes([ROLES.index(turn["role"]), learn_bits(turn)])
            out += [kind, len(content).to_bytes(8, "little"), content]
    return b"".join(out)


class TurnColumn:
    """A column of turns as views of the mapped file."""

    def __init__(self, column: pa.LargeListArray) -> None:
        contents = column.values.field("content")
        _, bounds, data = contents.buffers()
        self._first = np.asarray(column.offsets)
        self._roles = np.asarray(column.values.field("role"))
        self._learn = np.asarray(column.values.field("learn"))
        self._bounds = np.frombuffer(bounds if len(contents) else bytes(8), np.int64)
        self._data = memoryview(data or b"")

    def row(self, row: int) -> RowTurns:
        """One conversation."""
        start, stop = self._first[row : row + 2].tolist()
        bounds = self._bounds[start : stop + 1].tolist()
        spans = pairwise(bounds)
        contents = [bytes(self._data[a:b]) for a, b in spans]
        return contents, self._roles[start:stop], self._learn[start:stop]


class Part:
    """A mapped part; the file is closed at once, the mapping lives as long as its views."""

    def __init__(self, path: Path) -> None:
        with pa.memory_map(str(path)) as file:
            mapped = file.read_buffer()
        batch = pa.ipc.open_file(mapped).get_batch(0)
        self.turns, self.rejected = TurnColumn(batch.column(0)), TurnColumn(batch.column(1))
        self.prompt = np.asarray(batch.column(2))
        self.characters = np.asarray(batch.column(3))
        self.document = np.asarray(batch.column(4))


def read_part(path: Path) -> list[Turns | Pair]:
    """All conversations of a part, as they were given to ``encode_part``; notes are not in it."""
    part, found = Part(path), list[Turns | Pair]()
    for row, prompt in enumerate(part.prompt.tolist()):
        turns = as_turns(part.turns.row(row))
        pair = Pair(turns[:prompt], turns[prompt:], as_turns(part.rejected.row(row)))
        found.append(pair if prompt else Turns(turns))
    return found
