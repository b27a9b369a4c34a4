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

from pipeline_lib.corpus.layout import OPEN, PAYLOAD
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.shard_cutter import ShardCutter
from pipeline_lib.corpus.shards import check_shard, npy_header
from pipeline_lib.corpus.state import SPLITS, BySplit
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import OpenShard, WriterState
from pipeline_lib.selection import Split
from pipeline_lib.storage import atomic, folders
from pipeline_lib.storage.appender import Appender

_REMEDY = "if a copy exists restore it, else remove the staging folder and start a fresh run"


class ShardWriter(ShardCutter[Appender]):
    """Writes one split of one lane.

    ``close`` leaves the open file; the next restore cuts off the bytes that are not committed.
    """

    def __init__(
        self, staging: Path, split: Split, recipe: Recipe, dtype: np.dtype[Any], lane: int = 0
    ) -> None:
        super().__init__(split, recipe, dtype, lane)
        self._payload, self._opens = staging / PAYLOAD, staging / OPEN
        self._header = npy_header(self._capacity, dtype)

    def _create(self, name: str) -> Appender:
        file = Appender(self._opens / name)
        folders.sync_folder(self._opens)  # the next commit may name it
        file.append(self._header)
        return file

    def _keep_full(self, shard: OpenShard, file: Appender) -> str:
        file.sync()
        sha256 = file.sha256
        file.close()
        folders.rename_new(file.path, self._payload / shard["file"])
        return sha256

    def _keep_last(self, shard: OpenShard, file: Appender) -> str:
        """Written as a new file; the open one stays, because until the next commit the last one
        still names it."""
        header = npy_header(shard["tokens"], self._dtype)
        target = self._payload / shard["file"]
        written = atomic.write_copy(target, header, file.path, len(self._header))
        folders.sync_folder(self._payload)
        file.close()
        return written.sha256

    def flush(self) -> None:
        """Make everything appended so far durable, as a commit needs it."""
        if self._file is not None:
            self._file.sync()

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
        else:  # a power cut while it was moved may leave both names
            atomic.remove(self._payload / path.name)
        self._file.cut()


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
