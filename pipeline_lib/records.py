"""Plain data that crosses module borders."""

from typing import NamedTuple, NotRequired, TypedDict


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
