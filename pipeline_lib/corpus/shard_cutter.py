"""Documents of one split are cut into shards of a fixed number of tokens.

Where a shard ends and what its record says is decided here. What becomes of the bytes is decided by
a subclass: ``shard_writer`` writes them, ``shard_comparer`` compares them with published shards.
"""

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.corpus.layout import shard_name
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.records import OpenShard, ShardRecord, WriterState
from pipeline_lib.selection import Split


class GrowingShard(Protocol):
    """The shard that is being filled. ``sha256`` (hex) is of its bytes so far."""

    @property
    def sha256(self) -> str: ...

    def append(self, data: memoryview, /) -> None: ...

    def close(self) -> None: ...


Shard = TypeVar("Shard", bound=GrowingShard)


class ShardCutter(ABC, Generic[Shard]):
    """Takes the documents of one split of one lane, in order, and cuts them into shards.

    ``append`` takes whole documents, which may cross shards. ``documents`` and ``tokens`` count all
    that was appended; ``summary`` is what a commit records.
    """

    def __init__(self, split: Split, recipe: Recipe, dtype: np.dtype[Any], lane: int) -> None:
        self.split, self._lane, self._lanes = split, lane, recipe.lanes
        self._capacity, self._dtype = recipe.shard_tokens, dtype
        self._shards: list[ShardRecord] = []
        self._open: OpenShard | None = None
        self._file: Shard | None = None
        self.documents = self.tokens = 0

    @abstractmethod
    def _create(self, name: str) -> Shard:
        """A new shard with the header of a full one."""

    @abstractmethod
    def _keep_full(self, shard: OpenShard, file: Shard) -> str:
        """End a shard that is full; returns its SHA-256."""

    @abstractmethod
    def _keep_last(self, shard: OpenShard, file: Shard) -> str:
        """End the last, shorter shard, with a header of its own; returns its SHA-256."""

    def append(
        self, tokens: NDArray[Any], lengths: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> None:
        """Add documents.

        ``tokens`` (one dimension, the cutter's dtype): of all documents, one after another.
        ``lengths``: tokens of each document, its end token included. ``rows``: the visited row of
        each, counted in the lane.
        """
        starts = np.cumsum(lengths) - lengths
        position = 0
        while position < len(tokens):
            if self._file is None:
                self._begin(position, starts, rows)
            position += self._fill(tokens[position:])
        self.documents += len(lengths)
        self.tokens += len(tokens)

    def _begin(self, position: int, starts: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        document = int(np.searchsorted(starts, position, side="right")) - 1
        name = shard_name(self.split, len(self._shards), self._lane, self._lanes)
        self._file = self._create(name)
        self._open = OpenShard(
            file=name,
            tokens=0,
            sha256="",
            first_document=self.documents + document,
            first_token=position - int(starts[document]),
            first_row=int(rows[document]),
        )

    def _fill(self, tokens: NDArray[Any]) -> int:
        current, file = self._current()
        taken = tokens[: self._capacity - current["tokens"]]
        file.append(np.ascontiguousarray(taken).data)
        current["tokens"] += len(taken)
        if current["tokens"] == self._capacity:
            self._record(current, self._keep_full(current, file))
        return len(taken)

    def _record(self, current: OpenShard, sha256: str) -> None:
        self._shards.append(ShardRecord(**{**current, "sha256": sha256}))
        self._open = self._file = None

    def _current(self) -> tuple[OpenShard, Shard]:
        if self._open is None or self._file is None:
            raise ValueError(f"no {self.split} shard is open; this is a fault of the writer")
        return self._open, self._file

    def finish(self) -> None:
        """End the last, shorter shard, if there is one."""
        if self._open is not None:
            current, file = self._current()
            self._record(current, self._keep_last(current, file))

    def summary(self) -> WriterState:
        """Finished shards, and the open one as far as it is filled."""
        current = None
        if self._open is not None and self._file is not None:
            current = OpenShard(**{**self._open, "sha256": self._file.sha256})
        return WriterState(
            shards=list(self._shards), open=current, documents=self.documents, tokens=self.tokens
        )

    def close(self) -> None:
        """Close the open shard as it is."""
        if self._file is not None:
            self._file.close()
