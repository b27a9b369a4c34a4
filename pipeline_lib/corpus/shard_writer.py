"""Tokens are written into shards; a crash costs only the tokens added since the last commit.

The open shard is an append-only file under ``open/``. Its final header is already in place, because
its capacity is known. When it is full, it is renamed into ``payload/``. So memory does not depend
on the size of a shard, a commit costs the bytes that were appended, and ``payload/`` never holds a
file that is not complete.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.corpus.layout import OPEN, PAYLOAD, shard_name
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.shards import check_shard, npy_header
from pipeline_lib.corpus.state import SPLITS, BySplit
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import OpenShard, ShardRecord, WriterState
from pipeline_lib.selection import Split
from pipeline_lib.storage import atomic, folders
from pipeline_lib.storage.appender import Appender

_REMEDY = "if a copy exists restore it, else remove the staging folder and start a fresh run"


class ShardWriter:
    """Writes one split of one lane. ``documents`` and ``tokens`` count all that was appended.

    ``append`` takes whole documents, which may cross shards; a checkpoint records
    ``summary``.
    """

    def __init__(
        self, staging: Path, split: Split, recipe: Recipe, dtype: np.dtype[Any], lane: int = 0
    ) -> None:
        self.split, self._lane, self._lanes = split, lane, recipe.lanes
        self._capacity, self._dtype = recipe.shard_tokens, dtype
        self._payload, self._opens = staging / PAYLOAD, staging / OPEN
        self._header = npy_header(self._capacity, dtype)
        self._shards: list[ShardRecord] = []
        self._open: OpenShard | None = None
        self._file: Appender | None = None
        self.documents = self.tokens = 0

    def append(self, tokens: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        """Add documents.

        ``tokens`` (one dimension, the writer's dtype): of all documents, one after another.
        ``lengths``: tokens of each document, its end token included.
        """
        starts = np.cumsum(lengths) - lengths
        position = 0
        while position < len(tokens):
            if self._file is None:
                self._begin(position, starts)
            position += self._fill(tokens[position:])
        self.documents += len(lengths)
        self.tokens += len(tokens)

    def _begin(self, position: int, starts: NDArray[np.int64]) -> None:
        document = int(np.searchsorted(starts, position, side="right")) - 1
        name = shard_name(self.split, len(self._shards), self._lane, self._lanes)
        self._file = Appender(self._opens / name)
        self._file.append(self._header)
        self._open = OpenShard(
            file=name,
            tokens=0,
            sha256="",
            first_document=self.documents + document,
            first_token=position - int(starts[document]),
        )

    def _fill(self, tokens: NDArray[Any]) -> int:
        current, file = self._current()
        taken = tokens[: self._capacity - current["tokens"]]
        file.append(np.ascontiguousarray(taken).data)
        current["tokens"] += len(taken)
        if current["tokens"] == self._capacity:
            self._complete()
        return len(taken)

    def _complete(self) -> None:
        current, file = self._current()
        file.sync()
        self._shards.append(ShardRecord(**{**current, "sha256": file.sha256}))
        file.close()
        folders.rename_new(file.path, self._payload / current["file"])
        self._open = self._file = None

    def _current(self) -> tuple[OpenShard, Appender]:
        if self._open is None or self._file is None:
            raise ValueError(f"no {self.split} shard is open; this is a fault of the writer")
        return self._open, self._file

    def flush(self) -> None:
        """Make everything appended so far durable, as a commit needs it."""
        if self._file is not None:
            self._file.sync()

    def summary(self) -> WriterState:
        """Finished shards, and the open one as far as it is filled."""
        current = None
        if self._open is not None and self._file is not None:
            current = OpenShard(**{**self._open, "sha256": self._file.sha256})
        return WriterState(
            shards=list(self._shards), open=current, documents=self.documents, tokens=self.tokens
        )

    def names(self) -> set[str]:
        """Names of the files that the current state counts."""
        named = {shard["file"] for shard in self._shards}
        return named | ({self._open["file"]} if self._open else set())

    def restore(self, state: WriterState, trusted: Collection[str]) -> None:
        """Take over a commit; ``DamagedFile`` names a shard that is not as it was recorded.

        Sizes and headers of all shards are checked, and the SHA-256 of the open shard and of every
        shard whose name is not in ``trusted``. Nothing on disk is changed; ``settle`` has to
        follow.
        """
        for shard in state["shards"]:
            path = self._payload / shard["file"]
            full = shard["file"] not in trusted
            check_shard(path, shard, self._dtype, full=full, remedy=_REMEDY)
        self._shards = list(state["shards"])
        self.documents, self.tokens = state["documents"], state["tokens"]
        if state["open"] is not None:
            self._reopen(state["open"])

    def _reopen(self, current: OpenShard) -> None:
        path = self._opens / current["file"]
        if not path.exists():
            path = self._payload / current["file"]  # it was filled after the commit
        if not path.exists():
            raise DamagedFile(f"{self._opens / current['file']} is gone; {_REMEDY}")
        size = len(self._header) + current["tokens"] * self._dtype.itemsize
        file = Appender(path, size, cut=False)
        if file.sha256 != current["sha256"]:
            file.close()
            raise DamagedFile(
                f"{path}: SHA-256 of the committed {size:,} bytes is {file.sha256}, "
                f"{current['sha256']} was committed; {_REMEDY}"
            )
        self._file, self._open = file, OpenShard(**current)

    def settle(self) -> None:
        """Undo on disk everything appended after the commit that ``restore`` took over.

        A shard that was filled since is moved back to ``open/``, and the open shard is cut to its
        committed length. This is apart from ``restore``, so that a generation in which one shard is
        damaged leaves the other shards as they were.
        """
        if self._file is None or self._open is None:
            return
        path = self._opens / self._open["file"]
        if self._file.path != path:
            folders.rename_new(self._file.path, path)
            self._file.path = path
        self._file.cut()

    def finish(self) -> None:
        """Write the last, shorter shard as a new file with its own header, durably.

        The open file stays: until the next commit, the last one still names it.
        """
        if self._open is None:
            return
        current, file = self._current()
        header = npy_header(current["tokens"], self._dtype)
        target = self._payload / current["file"]
        written = atomic.write_copy(target, header, file.path, len(self._header))
        folders.sync_folder(self._payload)
        self._shards.append(ShardRecord(**{**current, "sha256": written.sha256}))
        file.close()
        self._open = self._file = None

    def close(self) -> None:
        """Close the open file; the next restore cuts off the bytes that are not committed."""
        if self._file is not None:
            self._file.close()


def new_writers(
    staging: Path, recipe: Recipe, dtype: np.dtype[Any], lane: int
) -> dict[Split, ShardWriter]:
    """The writers of a lane, one for each split, which have written nothing yet."""
    return {split: ShardWriter(staging, split, recipe, dtype, lane) for split in SPLITS}


def restore_writers(
    writers: Mapping[Split, ShardWriter],
    states: BySplit[WriterState],
    trusted: Collection[str],
) -> None:
    """Bring the writers of a lane to a commit; shards in ``trusted`` are not hashed again.

    ``DamagedFile`` for a damaged shard, and if the tokens of a split are not the sum of its shards.
    """
    for split, writer in writers.items():
        state = states[split]
        writer.restore(state, trusted)
        counted = sum(shard["tokens"] for shard in state["shards"])
        counted += state["open"]["tokens"] if state["open"] else 0
        if counted != state["tokens"]:
            raise DamagedFile(
                f"the checkpoint counts {state['tokens']:,} {split} tokens but its shards hold "
                f"{counted:,}; it was changed by hand or damaged"
            )
    for writer in writers.values():
        writer.settle()
