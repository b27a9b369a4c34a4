"""Plain data that crosses module borders."""

from collections.abc import Callable
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

FOLDER = "folder"
"""``dataset`` of a pinned recipe whose source is a local folder: its path is no identity."""
LOCAL = "local"
"""``tokenizer`` of a pinned recipe whose tokenizer is a local file."""

OnProgress = Callable[[str, int, int], None]
"""Called with the name of a stage or file, the units that are done, and the units there are."""


ROLES = ("system", "user", "assistant")
"""Who speaks in a turn. Stored conversations hold a role as its place in this tuple."""


class Turn(TypedDict):
    """One turn of a conversation."""

    role: str
    content: str


class Cursor(NamedTuple):
    """The next row to read: index into the ordered files, row inside that file."""

    file: int
    row: int


class ShardRecord(TypedDict):
    """One finished shard as a checkpoint and the manifest name it.

    ``first_document`` is the ordinal, within the split, of the first document with a token
    in the shard; ``first_token`` is how many of that document's tokens lie in earlier shards.
    """

    file: str
    tokens: int
    sha256: str
    first_document: int
    first_token: int


class OpenShard(TypedDict):
    """The committed part of the shard that is still growing."""

    file: str
    tokens: int
    sha256: str
    first_document: int
    first_token: int


class WriterState(TypedDict):
    """The committed state of one split's writer."""

    shards: list[ShardRecord]
    open: OpenShard | None
    documents: int
    tokens: int


class SourceFile(TypedDict):
    """One file of the source; ``footer`` is the digest of a local file's Parquet footer,
    ``sha256`` and ``mtime_ns`` are from when it was first opened."""

    name: str
    size: int
    footer: NotRequired[str]
    sha256: NotRequired[str]
    mtime_ns: NotRequired[int]


class TurnBatch(NamedTuple):
    """Turns of several conversations in columns.

    ``contents`` are UTF-8; ``roles`` (int8) are places in ``ROLES``; conversation ``i`` has
    the turns from ``offsets[i]`` up to ``offsets[i + 1]`` (int64).
    """

    contents: list[bytes]
    roles: NDArray[np.int8]
    offsets: NDArray[np.int64]


class LaneProgress(NamedTuple):
    """How far a lane is. ``rate``: tokens written per second since this process began;
    ``rows_at_most``: the bound, or the rows of the source where those are known and fewer."""

    lane: int
    rows: int
    documents: int
    train_tokens: int
    val_tokens: int
    elapsed_seconds: float
    rate: float
    rows_at_most: int | None = None
