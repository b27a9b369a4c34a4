"""Token shards: plain one-dimensional ``.npy`` files of a fixed number of tokens.

The open shard is an append-only file under ``open/`` whose final header is already in
place, because its capacity is known; when it is full it is renamed into ``payload/``. So
memory does not depend on the shard size, a commit costs what was appended, and
``payload/`` never holds a file that is not complete.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import OpenShard, ShardRecord, WriterState
from pipeline_lib.storage import atomic, folders
from pipeline_lib.storage.appender import Appender

SPLITS = ("train", "val")
_ALIGN = 64
_MAGIC = b"\x93NUMPY\x01\x00"


def npy_header(tokens: int, dtype: np.dtype[Any]) -> bytes:
    """Header of a one-dimensional version 1.0 ``.npy`` file (numpy.lib.format)."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({tokens},), }}"
    room = -(len(_MAGIC) + 2 + len(text) + 1) % _ALIGN
    body = (text + " " * room + "\n").encode("ascii")
    return _MAGIC + len(body).to_bytes(2, "little") + body


def save_array(path: Path, array: NDArray[Any]) -> atomic.WrittenFile:
    """Write a one-dimensional array as ``.npy``, durably; returns size and SHA-256."""
    header = npy_header(len(array), array.dtype)
    return atomic.write_new(path, [header, np.ascontiguousarray(array).data])


def shard_name(split: str, number: int, lane: int, lanes: int) -> str:
    """``train_00003.npy``; ``train_l02_00003.npy`` when there are several lanes."""
    middle = f"_l{lane:02d}" if lanes > 1 else ""
    return f"{split}{middle}_{number:05d}.npy"


class ShardWriter:
    """Writes one split of one lane; ``state`` is what a checkpoint records.

    ``append`` takes whole documents; they may cross shards.
    """

    def __init__(
        self,
        staging: Path,
        split: str,
        recipe: Recipe,
        dtype: np.dtype[Any],
        lane: int = 0,
    ) -> None:
        self.split, self._lane, self._lanes = split, lane, recipe.lanes
        self._capacity, self._dtype = recipe.shard_tokens, dtype
        self._payload, self._opens = staging / "payload", staging / "open"
        self._header = npy_header(self._capacity, dtype)
        self._shards: list[ShardRecord] = []
        self._open: OpenShard | None = None
        self._file: Appender | None = None
        self.documents = self.tokens = 0

    def append(self, tokens: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        """Add documents: their tokens one after another (ids < 2**bits, dtype as given at
        construction) and the number of tokens of each, end token included."""
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
        """Make everything appended durable, as a commit needs it."""
        if self._file is not None:
            self._file.sync()

    def summary(self) -> WriterState:
        """Finished shards and the committed part of the open one."""
        current = None
        if self._open is not None and self._file is not None:
            current = OpenShard(**{**self._open, "sha256": self._file.sha256})
        return WriterState(
            shards=list(self._shards), open=current, documents=self.documents, tokens=self.tokens
        )

    def names(self) -> set[str]:
        """File names that the current state counts."""
        named = {shard["file"] for shard in self._shards}
        return named | ({self._open["file"]} if self._open else set())

    def restore(self, state: WriterState, trusted: Collection[str]) -> None:
        """Take over a commit; ``DamagedFile`` names a shard that is not what it recorded.

        Sizes and headers of all shards are checked, the SHA-256 of those not in ``trusted``
        and of the open one. Nothing on disk is changed; ``settle`` has to follow.
        """
        for shard in state["shards"]:
            path = self._payload / shard["file"]
            full = shard["file"] not in trusted
            check_shard(path, shard, self._dtype, full=full, way_out=_WAY_OUT)
        self._shards = list(state["shards"])
        self.documents, self.tokens = state["documents"], state["tokens"]
        if state["open"] is not None:
            self._reopen(state["open"])

    def _reopen(self, current: OpenShard) -> None:
        path = self._opens / current["file"]
        if not path.exists():
            path = self._payload / current["file"]  # it was filled after the commit
        if not path.exists():
            raise DamagedFile(f"{self._opens / current['file']} is gone; {_WAY_OUT}")
        size = len(self._header) + current["tokens"] * self._dtype.itemsize
        file = Appender(path, size, cut=False)
        if file.sha256 != current["sha256"]:
            file.close()
            raise DamagedFile(
                f"{path}: SHA-256 of the committed {size:,} bytes is {file.sha256}, "
                f"{current['sha256']} was committed; {_WAY_OUT}"
            )
        self._file, self._open = file, OpenShard(**current)

    def settle(self) -> None:
        """After ``restore``: reopen a shard that was filled since, cut what no commit named.

        Apart from ``restore``, so that a generation with one damaged shard leaves the others
        as they were.
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

        The open file stays: the generation before the next commit still names it.
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
        """Close the open file; what is not committed is cut off by the next restore."""
        if self._file is not None:
            self._file.close()


def restore_writers(
    writers: dict[str, ShardWriter], states: dict[str, WriterState], trusted: set[str]
) -> None:
    """Bring both writers to a commit; shards in ``trusted`` are not hashed again.

    ``DamagedFile`` if the tokens of a split are not the sum of its shards.
    """
    for split, state in states.items():
        writers[split].restore(state, trusted)
        counted = sum(shard["tokens"] for shard in state["shards"])
        counted += state["open"]["tokens"] if state["open"] else 0
        if counted != state["tokens"]:
            raise DamagedFile(
                f"the checkpoint counts {state['tokens']:,} {split} tokens but its shards hold "
                f"{counted:,}; it was changed by hand or damaged"
            )
    for writer in writers.values():
        writer.settle()


_WAY_OUT = "if a copy exists restore it, else remove the staging folder and start a fresh run"


PUBLISHED_WAY_OUT = "restore it from a copy, or prepare the folder again"


def check_shard(
    path: Path,
    shard: ShardRecord,
    dtype: np.dtype[Any],
    *,
    full: bool = True,
    way_out: str = PUBLISHED_WAY_OUT,
) -> None:
    """``DamagedFile`` unless the file has the recorded size, header and, if ``full``, hash."""
    header = npy_header(shard["tokens"], dtype)
    size = len(header) + shard["tokens"] * dtype.itemsize
    if not path.is_file():
        raise DamagedFile(f"{path} is missing; {way_out}")
    if path.stat().st_size != size:
        found = path.stat().st_size
        raise DamagedFile(f"{path} has {found:,} bytes, {size:,} were recorded; {way_out}")
    with path.open("rb") as file:
        if file.read(len(header)) != header:
            raise DamagedFile(f"{path} does not begin with the recorded header; {way_out}")
    if full and (found_sha := digest.sha256_file(path)) != shard["sha256"]:
        raise DamagedFile(
            f"{path}: SHA-256 is {found_sha}, {shard['sha256']} was recorded; {way_out}"
        )
