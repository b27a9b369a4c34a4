"""Documents that are made again are compared with published shards; nothing is written.

The shards are cut as a run cuts them (``shard_cutter``). Instead of being written, each piece is
compared with the same bytes of the published file, which is read beside it.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.shard_cutter import ShardCutter
from pipeline_lib.corpus.shards import npy_header
from pipeline_lib.records import OpenShard
from pipeline_lib.selection import Split

SHOWN = 10
"""Documents and faults of each split of a lane that are kept to be shown; all are counted."""
UNKNOWN = "unknown, because the shard has another length"
_BLOCK = 1 << 20
_IDS = 8


class OtherIds(NamedTuple):
    """A document whose ids are not the published ones.

    ``document``: its number in the split of the lane. ``row``: the visited row it came from.
    ``path``, ``token``: the first place that differs. ``made``, ``found``: ids from there on, made
    again and published.
    """

    split: Split
    document: int
    row: int
    path: Path
    token: int
    made: list[int]
    found: list[int]


class ComparedShard:
    """A published shard, read in step with the one that is made again.

    ``differing``: places, in tokens of the shard, that were found to differ since ``take`` was
    called. ``tokens``: the number that is recorded for the shard; its digest is made for them.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], tokens: int) -> None:
        self.path, self._dtype, self.recorded = path, dtype, tokens
        header = npy_header(tokens, dtype)
        self._digest = hashlib.sha256(header)
        self._file: BinaryIO | None = path.open("rb") if path.is_file() else None
        if self._file is not None:
            self._file.seek(len(header))
        self._tokens, self._differing = 0, list[NDArray[np.int64]]()

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of the bytes that were made, behind the header for the recorded tokens."""
        return self._digest.hexdigest()

    def append(self, data: memoryview) -> None:
        """Compare the next tokens with the published ones."""
        made: NDArray[Any] = np.frombuffer(data, self._dtype)
        self._digest.update(data)
        for start in range(0, len(made) if self._file is not None else 0, _BLOCK):
            self._compare(made[start : start + _BLOCK], self._tokens + start)
        self._tokens += len(made)

    def _compare(self, made: NDArray[Any], first: int) -> None:
        found = self._read(len(made))
        whole = len(found) == len(made)
        if whole and np.array_equal(found, made):
            return
        common = np.flatnonzero(found != made[: len(found)])
        self._differing.append(first + np.append(common, np.arange(len(found), len(made))))

    def _read(self, tokens: int) -> NDArray[Any]:
        size = tokens * self._dtype.itemsize
        return _whole(self._file.read(size) if self._file is not None else b"", self._dtype)

    def take(self) -> NDArray[np.int64]:
        """The places that differ, in tokens of the shard; a missing file has none."""
        taken, self._differing = self._differing, []
        return np.concatenate([np.empty(0, np.int64), *taken])

    def faults(self) -> list[str]:
        """What is wrong with the published file beside its tokens, once all of them were made."""
        if self._file is None:
            return [f"{self.path} is missing; {self._tokens:,} tokens were made again for it"]
        header = npy_header(self._tokens, self._dtype)
        size = len(header) + self._tokens * self._dtype.itemsize
        found, wrong = self.path.stat().st_size, []
        self._file.seek(0)
        if self._file.read(len(header)) != header:
            wrong.append(f"{self.path} begins with another header than {header.strip()!r}")
        if found != size:
            wrong.append(f"{self.path} has {found:,} bytes, {size:,} were made again")
        return wrong

    def close(self) -> None:
        """Close the published file."""
        if self._file is not None:
            self._file.close()


class ShardComparer(ShardCutter[ComparedShard]):
    """Compares one split of one lane with the shards in a published folder.

    ``recorded``: file name -> tokens of each shard, as the manifest lists them. ``different``
    counts the documents with other ids; ``others`` are the first of them, ``faults`` what is wrong
    with whole files.
    """

    def __init__(
        self,
        folder: Path,
        split: Split,
        recipe: Recipe,
        dtype: np.dtype[Any],
        lane: int,
        recorded: Mapping[str, int],
    ) -> None:
        super().__init__(split, recipe, dtype, lane)
        self._folder, self._recorded = folder, recorded
        self.different, self.others, self.faults = 0, list[OtherIds](), list[str]()
        self._places, self._paths = list[NDArray[np.int64]](), list[Path]()

    def _create(self, name: str) -> ComparedShard:
        path = self._folder / name
        self._paths.append(path)
        return ComparedShard(path, self._dtype, self._recorded.get(name, self._capacity))

    def _keep_full(self, shard: OpenShard, file: ComparedShard) -> str:
        self._take(file)
        self.faults += file.faults()
        file.close()
        return file.sha256 if file.recorded == shard["tokens"] else UNKNOWN

    _keep_last = _keep_full

    def append(
        self, tokens: NDArray[Any], lengths: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> None:
        """Compare documents; see ``ShardCutter.append``."""
        documents, first = self.documents, self.tokens
        super().append(tokens, lengths, rows)
        if self._file is not None:
            self._take(self._file)
        places, self._places = np.concatenate([np.empty(0, np.int64), *self._places]), []
        if len(places):
            self._add(documents, places - first, tokens, np.cumsum(lengths), rows)

    def _take(self, file: ComparedShard) -> None:
        self._places.append(file.take() + (len(self._paths) - 1) * self._capacity)

    def _add(
        self,
        before: int,
        places: NDArray[np.int64],
        tokens: NDArray[Any],
        ends: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> None:
        """Count the documents that own some places, and keep the first of them.

        ``before``: documents before these. ``places``: in ``tokens``. ``ends``: of the documents.
        ``rows``: the visited row of each.
        """
        owners, first = np.unique(np.searchsorted(ends, places, side="right"), return_index=True)
        self.different += len(owners)
        room = SHOWN - len(self.others)
        for owner, place in zip(owners[:room].tolist(), places[first[:room]].tolist(), strict=True):
            made = tokens[place : int(ends[owner])]
            at = self.tokens - len(tokens) + place
            self.others.append(self._other(before + owner, int(rows[owner]), at, made))

    def _other(self, document: int, row: int, token: int, made: NDArray[Any]) -> OtherIds:
        number, place = divmod(token, self._capacity)
        made = made[: min(_IDS, self._capacity - place)]
        path = self._paths[number]
        header = len(npy_header(self._recorded.get(path.name, self._capacity), self._dtype))
        with path.open("rb") as file:
            file.seek(header + place * self._dtype.itemsize)
            found = _whole(file.read(len(made) * self._dtype.itemsize), self._dtype)
        return OtherIds(self.split, document, row, path, place, made.tolist(), found.tolist())


def _whole(data: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The whole tokens in some bytes."""
    return np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
