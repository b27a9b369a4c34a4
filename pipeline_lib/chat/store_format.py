"""One part of the stored conversations: an Arrow IPC file with one record batch.

Columns: the turns of each conversation, each with its role, its content and where loss falls on it
(``LEARN_CONTENT``, ``LEARN_END``); for a pair, the rejected continuation and the number of prompt
turns; the number of characters; whether it is a document, which has no user turn. A part that holds
tool calls, results or schemas has two columns more: for each turn the ``fields`` and for each
conversation the ``tools`` of a ``TurnBatch``. Other parts do without, so they cost nothing there.
A part is written once and read by memory-mapping.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline_lib.chat.conversation import Pair, Turns, tool_fields
from pipeline_lib.chat.json_values import as_json
from pipeline_lib.records import LEARN_ALL, LEARN_CONTENT, ROLES, Turn, TurnBatch, learn_bits

_TURN = ("role", "content", "learn", "fields")
_NUMBERS = [("prompt", pa.int32()), ("characters", pa.int64()), ("document", pa.int8())]
_WITH_TOOLS = 1 << 31  # no prompt has as many turns
_WITH_FIELDS = 4  # beside the bits of ``learn``


class RowTurns(NamedTuple):
    """One conversation in columns, as in ``TurnBatch``: ``contents`` (UTF-8), ``roles`` (int8),
    ``learn`` (int8) and ``fields`` of its turns, and its ``tools``."""

    contents: list[bytes]
    roles: NDArray[np.int8]
    learn: NDArray[np.int8]
    fields: list[bytes]
    tools: bytes = b""


def in_columns(rows: Iterable[RowTurns]) -> TurnBatch:
    """Put single conversations into columns."""
    contents, fields, tools = list[bytes](), list[bytes](), list[bytes]()
    roles: list[NDArray[np.int8]] = [np.empty(0, np.int8)]
    learn, offsets = [roles[0]], [0]
    for texts, codes, learned, more, offered in rows:
        contents += texts
        roles.append(codes)
        learn.append(learned)
        fields += more
        tools.append(offered)
        offsets.append(len(contents))
    ends = np.array(offsets, np.int64)
    return TurnBatch(contents, np.concatenate(roles), np.concatenate(learn), ends, fields, tools)


def row_of(batch: TurnBatch, number: int) -> RowTurns:
    """Conversation ``number`` of a batch, in columns."""
    start, stop = batch.offsets[number : number + 2].tolist()
    columns = (batch.contents, batch.roles, batch.learn, batch.fields)
    contents, roles, learn, fields = (column[start:stop] for column in columns)
    return RowTurns(contents, roles, learn, fields, batch.tools[number])  # type: ignore[arg-type]


def conversation(batch: TurnBatch, number: int) -> list[Turn]:
    """The turns of conversation ``number`` of a batch."""
    return as_turns(row_of(batch, number))


def tools_of(batch: TurnBatch, number: int) -> list[Any] | None:
    """The JSON schemas of the tools that conversation ``number`` of a batch was offered."""
    return as_tools(batch.tools[number])


def as_tools(stored: bytes) -> list[Any] | None:
    """The schemas of tools from the form in which they are stored."""
    return json.loads(stored) if stored else None


def as_turns(row: RowTurns) -> list[Turn]:
    """One conversation as a list of turns."""
    every = zip(row.roles.tolist(), row.contents, row.learn.tolist(), row.fields, strict=True)
    return [_as_turn(role, content.decode(), bits, more) for role, content, bits, more in every]


def _as_turn(role: int, content: str, bits: int, fields: bytes) -> Turn:
    turn = Turn(role=ROLES[role], content=content)
    if not bits & LEARN_CONTENT:
        turn["learn"] = False
    elif bits != LEARN_ALL:
        turn["cut"] = True
    if fields:
        turn.update(json.loads(fields))
    return turn


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
    sides = [[whole(c) for c in conversations], [pair.rejected for pair in pairs]]
    numbers = (
        [len(pair.prompt) for pair in pairs],
        [_characters(whole(c)) for c in conversations],
        [int(is_document(whole(c))) for c in conversations],
    )
    tools = [as_json(c.tools) if c.tools else b"" for c in conversations]
    fields = [[tool_fields(t) if len(t) > 2 else b"" for turns in s for t in turns] for s in sides]
    extended = any(tools) or any(map(any, fields))
    columns = {
        "turns": _turn_column(sides[0], fields[0] if extended else None),
        "rejected": _turn_column(sides[1], fields[1] if extended else None),
        **{name: pa.array(n, kind) for (name, kind), n in zip(_NUMBERS, numbers, strict=True)},
        **({"tools": pa.array(tools, pa.large_binary())} if extended else {}),
    }
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _turn_column(
    conversations: Sequence[Sequence[Turn]], fields: list[bytes] | None
) -> pa.LargeListArray:
    offsets = np.cumsum([0, *map(len, conversations)], dtype=np.int64)
    turns = [turn for conversation in conversations for turn in conversation]
    columns = [
        pa.array([ROLES.index(turn["role"]) for turn in turns], pa.int8()),
        pa.array([turn["content"] for turn in turns], pa.large_string()),
        pa.array([learn_bits(turn) for turn in turns], pa.int8()),
        *([] if fields is None else [pa.array(fields, pa.large_binary())]),
    ]
    flat = pa.StructArray.from_arrays(columns, names=_TURN[: len(columns)])
    return pa.LargeListArray.from_arrays(offsets, flat)


def _characters(turns: Sequence[Turn]) -> int:
    return sum(len(turn["content"]) for turn in turns)


def conversation_bytes(conversation: Turns | Pair) -> bytes:
    """The bytes of a conversation for digests; a length stands before each list and text.

    A conversation with tools says so in the number of its prompt turns, a turn with fields of tools
    in its byte for ``learn``.
    """
    pair = conversation if isinstance(conversation, Pair) else Pair([], [], [])
    tools = as_json(conversation.tools) if conversation.tools else b""
    prompt = len(pair.prompt) | _WITH_TOOLS if tools else len(pair.prompt)
    out = [prompt.to_bytes(4, "little"), *(_sized(tools) if tools else ())]
    for turns in (whole(conversation), pair.rejected):
        out.append(len(turns).to_bytes(4, "little"))
        for turn in turns:
            content, fields = turn["content"].encode(), tool_fields(turn)
            bits = learn_bits(turn) | _WITH_FIELDS if fields else learn_bits(turn)
            kind = bytes([ROLES.index(turn["role"]), bits])
            out += [kind, len(content).to_bytes(8, "little"), content]
            if fields:
                out += _sized(fields)
    return b"".join(out)


def _sized(data: bytes) -> tuple[bytes, bytes]:
    return len(data).to_bytes(8, "little"), data


class _Texts:
    """A column of texts or bytes as views of the mapped file."""

    def __init__(self, column: pa.Array) -> None:
        _, bounds, data = column.buffers()
        self._bounds = np.frombuffer(bounds if len(column) else bytes(8), np.int64)
        self._data = memoryview(data or b"")

    def read(self, start: int, stop: int) -> list[bytes]:
        """The texts ``start:stop``."""
        bounds = self._bounds[start : stop + 1].tolist()
        return [bytes(self._data[a:b]) for a, b in pairwise(bounds)]


class TurnColumn:
    """A column of turns as views of the mapped file; ``tools``: the column beside it, if any."""

    def __init__(self, column: pa.LargeListArray, tools: pa.Array | None = None) -> None:
        turns = column.values
        self._first = np.asarray(column.offsets)
        self._contents = _Texts(turns.field("content"))
        self._roles = np.asarray(turns.field("role"))
        self._learn = np.asarray(turns.field("learn"))
        extended = turns.type.get_field_index("fields") >= 0
        self._fields = _Texts(turns.field("fields")) if extended else None
        self._tools = None if tools is None else _Texts(tools)

    def row(self, row: int) -> RowTurns:
        """One conversation."""
        start, stop = self._first[row : row + 2].tolist()
        if start == stop and self._tools is None:
            return RowTurns([], self._roles[:0], self._learn[:0], [])
        contents = self._contents.read(start, stop)
        fields = self._fields.read(start, stop) if self._fields else [b""] * len(contents)
        tools = self._tools.read(row, row + 1)[0] if self._tools else b""
        return RowTurns(contents, self._roles[start:stop], self._learn[start:stop], fields, tools)


class Part:
    """A mapped part; the file is closed at once, the mapping lives as long as its views."""

    def __init__(self, path: Path) -> None:
        with pa.memory_map(str(path)) as file:
            mapped = file.read_buffer()
        batch = pa.ipc.open_file(mapped).get_batch(0)
        tools = batch.column("tools") if "tools" in batch.schema.names else None
        self.turns = TurnColumn(batch.column("turns"), tools)
        self.rejected = TurnColumn(batch.column("rejected"))
        self.prompt = np.asarray(batch.column("prompt"))
        self.characters = np.asarray(batch.column("characters"))
        self.document = np.asarray(batch.column("document"))

    def conversation(self, row: int) -> Turns:
        """One conversation; of a pair, prompt and chosen continuation."""
        stored = self.turns.row(row)
        return Turns(as_turns(stored), tools=as_tools(stored.tools))

    def pair(self, row: int) -> Pair | None:
        """One pair; None for a plain conversation."""
        prompt = int(self.prompt[row])
        if not prompt:
            return None
        turns = self.conversation(row)
        rejected = as_turns(self.rejected.row(row))
        return Pair(turns[:prompt], turns[prompt:], rejected, tools=turns.tools)


def read_part(path: Path) -> list[Turns | Pair]:
    """All conversations of a part, as they were given to ``encode_part``; notes are not in it."""
    part = Part(path)
    return [part.pair(row) or part.conversation(row) for row in range(len(part.prompt))]
