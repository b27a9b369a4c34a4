"""The files of each kind of token cache: their names, dtypes and shapes.

    pretrain   pretrain_tokens.bin                     int32, one stream; an end token ends a text
    sft        sft_ids.bin  sft_mask.bin  sft_len.bin  int32, int8, int32; a row per conversation
    dpo        dpo_ids.bin  dpo_mask.bin  dpo_len.bin  the same; two rows per pair: chosen, rejected
               dpo_real.bin                            int8, one per pair: 1 real, 0 made

Ids and masks are ``max_len`` wide. ``len`` is the number of real tokens in a row; the rest is
padding. In a stream every token has loss, except those of turns that are not to be learned: their
ids are stored as ``-1 - id``. The writer, the datasets and the preflight all use these definitions.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["pretrain", "sft", "dpo"]


@dataclass(frozen=True)
class FileLayout:
    """A file of rows of numbers with one little-endian dtype; each row has ``shape``."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class RowFiles:
    """The files of a cache of rows; the rows with the same number belong together."""

    ids: FileLayout
    mask: FileLayout
    lengths: FileLayout
    real: FileLayout | None = None

    @property
    def all(self) -> tuple[FileLayout, ...]:
        """The files in the order in which rows are written."""
        real = () if self.real is None else (self.real,)
        return (self.ids, self.mask, self.lengths, *real)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row in all files."""
        return sum(file.row_bytes for file in self.all)


STREAM = FileLayout("pretrain_tokens.bin", "<i4")


def row_files(kind: Kind, max_len: int) -> RowFiles:
    """The files of an ``sft`` or ``dpo`` cache with rows of ``max_len`` tokens."""
    sides = (2,) if kind == "dpo" else ()
    return RowFiles(
        FileLayout(f"{kind}_ids.bin", "<i4", (*sides, max_len)),
        FileLayout(f"{kind}_mask.bin", "<i1", (*sides, max_len)),
        FileLayout(f"{kind}_len.bin", "<i4", sides),
        FileLayout("dpo_real.bin", "<i1") if kind == "dpo" else None,
    )


def without_loss(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """Ids of a stream as they are stored if no loss falls on them; its own inverse."""
    return ~ids
