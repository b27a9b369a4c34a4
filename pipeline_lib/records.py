"""Types of plain data that several modules share."""

from collections.abc import Callable
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

FOLDER = "folder"
"""``dataset`` of a pinned recipe whose source is a local folder: the path does not count."""
LOCAL = "local"
"""``tokenizer`` of a pinned recipe whose tokenizer is a local file."""

DataRow = dict[str, Any]  # each data set has columns of its own; the registry states their types
"""A row of a data set: column -> value."""
JsonObject = dict[str, Any]  # any JSON value, by name: arguments of a call, the schema of a tool
"""A JSON object whose order of keys counts, because templates print it."""

OnProgress = Callable[[str, int, int], None]
"""Called with the name of a stage or file, the number of finished units, and the total."""


ROLES = ("system", "user", "assistant", "tool")
"""The roles of a turn. Stored conversations hold a role as its index in this tuple."""

LEARN_CONTENT, LEARN_END = 1, 2
"""Where loss falls on an assistant's turn: two bits, for its content and for its end mark."""
LEARN_ALL = LEARN_CONTENT | LEARN_END


class CalledFunction(TypedDict):
    """The function of a call. ``arguments``: a JSON object, or a text that should hold one."""

    name: str
    arguments: JsonObject | str


class ToolCall(TypedDict):
    """One call of a tool, as OpenAI writes it; ``type`` is ``"function"``."""

    type: str
    id: NotRequired[str]
    function: CalledFunction


class Turn(TypedDict):
    """One turn of a conversation; ``role`` is one of ``ROLES``.

    ``learn`` false: no loss falls on the turn. ``cut`` true: the content was cut, so no loss falls
    on the mark of its end. A turn without these keys is whole, and learned if it is an assistant's.
    ``tool_calls``: of an assistant's turn, whose content may then be blank. ``name`` of the tool
    and ``tool_call_id``: of a tool's turn, which is the result of a call.
    """

    role: str
    content: str
    learn: NotRequired[bool]
    cut: NotRequired[bool]
    tool_calls: NotRequired[list[ToolCall]]
    name: NotRequired[str]
    tool_call_id: NotRequired[str]


def learn_bits(turn: Turn) -> int:
    """Where loss falls on a turn if it is an assistant's."""
    if not turn.get("learn", True):
        return 0
    return LEARN_CONTENT if turn.get("cut") else LEARN_ALL


TOOL_FIELDS = ("tool_calls", "name", "tool_call_id")
"""The fields of a turn that only conversations with tools have."""


class Cursor(NamedTuple):
    """The next row to read: index of its file in the file order, row number in that file."""

    file: int
    row: int


class ShardRecord(TypedDict):
    """One finished shard, as checkpoints and the manifest list it.

    ``first_document``: the number, within the split, of the first document that has a token in the
    shard. ``first_token``: the number of tokens of that document that are in earlier shards.
    ``first_row``: the visited row, in the lane, from which that document came; the first version
    has none.
    """

    file: str
    tokens: int
    sha256: str
    first_document: int
    first_token: int
    first_row: NotRequired[int]


class OpenShard(TypedDict):
    """The committed part of the shard that is still being written."""

    file: str
    tokens: int
    sha256: str
    first_document: int
    first_token: int
    first_row: int


class WriterState(TypedDict):
    """The committed state of one split's writer."""

    shards: list[ShardRecord]
    open: OpenShard | None
    documents: int
    tokens: int


class SourceFile(TypedDict):
    """One file of the source.

    ``footer``: digest of the Parquet footer of a local file. ``sha256`` and ``mtime_ns``: recorded
    when the file was first opened.
    """

    name: str
    size: int
    footer: NotRequired[str]
    sha256: NotRequired[str]
    mtime_ns: NotRequired[int]


class TurnBatch(NamedTuple):
    """Turns of several conversations in columns.

    ``contents``: UTF-8. ``roles`` (int8): indices in ``ROLES``. ``learn`` (int8): the bits
    ``LEARN_CONTENT`` and ``LEARN_END``; they count for assistants only. ``offsets`` (int64):
    conversation ``i`` has the turns ``offsets[i]:offsets[i + 1]``. ``fields``: for each turn its
    ``TOOL_FIELDS`` as compact JSON, and ``tools``: for each conversation the JSON schemas of the
    tools that it was offered, as a list in compact JSON; both ``b""`` where there is nothing.
    """

    contents: list[bytes]
    roles: NDArray[np.int8]
    learn: NDArray[np.int8]
    offsets: NDArray[np.int64]
    fields: list[bytes]
    tools: list[bytes]


class LaneProgress(NamedTuple):
    """The progress of a lane.

    ``rate``: tokens written per second since this process started. ``rows_at_most``: its part of
    the bound on rows, or the rows in its files if they are known and fewer. ``tokens_at_most``: its
    part of the bound on train tokens. ``lanes``: of the run.
    """

    lane: int
    rows: int
    documents: int
    train_tokens: int
    val_tokens: int
    elapsed_seconds: float
    rate: float
    rows_at_most: int | None = None
    tokens_at_most: int | None = None
    lanes: int = 1

    @property
    def share(self) -> float:
        """How much of the lane is done: by the bound that ends it first; 0 if none is known."""
        rows = self.rows / self.rows_at_most if self.rows_at_most else 0.0
        tokens = self.train_tokens / self.tokens_at_most if self.tokens_at_most else 0.0
        return max(rows, tokens)


class TokenizerMetadata(TypedDict):
    """A pinned tokenizer. ``sha256``: hex, of its normalised JSON. ``vocab_size``: largest id + 1.

    ``use_fast`` and the two after it say how it is used: always as a fast tokenizer, which adds no
    special token of its own, and every document is followed by the end token. ``switched_off``:
    what its file leaves to chance, if anything. ``unspelled_bytes``: bytes that its vocabulary has
    no token for, if any.
    """

    repository: str
    revision: str
    sha256: str
    vocab_size: int
    eos_token: str
    eos_id: int
    use_fast: bool
    add_special_tokens: bool
    append_eos: bool
    switched_off: NotRequired[list[str]]
    unspelled_bytes: NotRequired[list[int]]
