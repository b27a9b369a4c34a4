"""The record of a lane at a commit, as types.

The fields have the names and the order of ``checkpoint.json``; the module ``checkpoint`` is its
only writer and its only reader. The manifest records some of the same things.
"""

from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar

from pipeline_lib.corpus.recipe import RecipeFields
from pipeline_lib.records import Cursor, SourceFile, TokenizerMetadata, WriterState
from pipeline_lib.selection import Split

Value = TypeVar("Value")

SPLITS: tuple[Split, ...] = ("train", "val")


class BySplit(TypedDict, Generic[Value]):
    """One value for each split."""

    train: Value
    val: Value


class Locations(TypedDict):
    """Where a run found its dataset and its tokenizer: repositories or absolute paths."""

    dataset: str
    tokenizer: str


class EncoderUsed(TypedDict):
    """The library that made the ids, and its version."""

    name: str
    version: str


class ShuffleMetadata(TypedDict):
    """The shuffle: its algorithm, and the seed sequence of each stream of draws.

    ``files`` is the sequence for the order of the files; ``documents`` has one for each lane. Each
    seeds one random generator, which ``algorithm`` names.
    """

    algorithm: str
    files: list[int]
    documents: list[list[int]]


class ReaderAlgorithm(TypedDict):
    """How rows are read and ordered, whatever the files are.

    ``interface``: the format of the files. ``column``: the text column. ``batch_size``: rows in a
    tokenization batch. ``read``: settings of the Parquet reader.
    """

    interface: str
    column: str
    batch_size: int
    read: dict[str, int | bool]
    shuffle: ShuffleMetadata


class ReaderMetadata(ReaderAlgorithm):
    """How the rows of a source are read and ordered.

    ``files``: names in the order in which they are read, of all lanes together. ``sizes``: bytes of
    each file. ``footers``: hex SHA-256 of the Parquet footer of each local file.
    """

    files: list[str]
    sizes: dict[str, int]
    footers: dict[str, str]


class SnapshotRecord(TypedDict):
    """The file that holds the shuffle buffer at a commit; ``sha256`` (hex) is of all its bytes."""

    file: str
    documents: int
    sha256: str


class FirstRejected(TypedDict):
    """The first document of a lane that was left out for a reason.

    ``file`` and ``row``: its place in the source, None if it was not found in time.
    ``visited_row``: in the lane. ``words``: of the library that refused the text, or the start of
    the text.
    """

    reason: str
    file: str | None
    row: int | None
    visited_row: int
    words: str


class LossCounts(TypedDict):
    """``unknown_tokens``: written. ``compared``: documents that were decoded again. ``lost``: those
    of them of which text was missing."""

    unknown_tokens: int
    compared: int
    lost: int


@dataclass(frozen=True)
class LaneState:
    """How far a lane is, apart from its shuffle.

    ``generation``: number of the commit, from 1. ``source_files``: the seals of local files.
    ``source_digest``: running digest (hex) of all visited rows. ``nulls`` / ``blanks``: visited
    rows without text. ``rejected``: reason -> documents that the tokenizer can not give ids to.
    ``prefetched_documents_not_written``: documents of the last batch behind the one that crossed
    the token bound. ``train_token_target_reached``: None without a token bound.
    ``encoders``: all that made ids for this lane, in order. ``elapsed_seconds``: over all sessions.
    """

    generation: int
    lane: int
    finished: bool
    recipe: RecipeFields
    tokenizer: TokenizerMetadata
    reader: ReaderMetadata
    source_files: dict[str, SourceFile]
    locations: Locations
    versions: dict[str, str]
    encoders: list[EncoderUsed]
    source_rows_visited: int
    source_digest: str
    nulls: int
    blanks: int
    rejected: dict[str, int]
    first_rejected: list[FirstRejected]
    losses: LossCounts
    prefetched_documents_not_written: int
    train_token_target_reached: bool | None
    writers: BySplit[WriterState]
    elapsed_seconds: float


@dataclass(frozen=True)
class Checkpoint(LaneState):
    """A commit: the state of a lane, and where its shuffle stands.

    ``cursor``: the next row to read. ``draws``: random numbers drawn so far. ``draining``: all rows
    are read and only the buffer is left. ``buffer``: the file that holds the buffered documents.
    """

    cursor: Cursor
    draws: int
    draining: bool
    buffer: SnapshotRecord
