"""The files of each kind of token cache: their names and dtypes.

    pretrain   pretrain_tokens.bin                      int32, one stream; an end token ends a text
    sft        sft_ids.bin  sft_mask.bin  sft_rows.bin  int32, int8: rows one after another, without
                                                        padding; a record for each row
    dpo        dpo_ids.bin  dpo_mask.bin  dpo_rows.bin  the same; two rows and one record for each
                                                        pair: chosen, then rejected
    fit-sft, fit-dpo  fitting.bin                       uint32: the numbers of the records that fit
                                                        one ``max_len``

In a stream every token has loss, except those of turns that are not to be learned: their ids are
stored as ``-1 - id``. The writer, the datasets and the preflight all use these definitions.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["pretrain", "sft", "dpo"]


@dataclass(frozen=True)
class FileLayout:
    """A file of numbers of one little-endian dtype, or of records."""

    name: str
    dtype: np.dtype[Any]

    @property
    def item_bytes(self) -> int:
        """Bytes of one number or record."""
        return self.dtype.itemsize


@dataclass(frozen=True)
class RowFiles:
    """The files of a cache of rows.

    A record has for each of its ``sides`` the place behind its last token (``end``), the first
    token with loss in it (``first``), and how many these are (``trained``); the number of its
    ``conversation`` in the order of the cache; and for a pair the first token at which its sides
    differ (``differs``), and whether both answers come from the data set (``real``).
    """

    ids: FileLayout
    mask: FileLayout
    records: FileLayout
    sides: int

    @property
    def token_bytes(self) -> int:
        """Bytes of one token."""
        return self.ids.item_bytes + self.mask.item_bytes

    @property
    def record_bytes(self) -> int:
        """Bytes of a row or pair beside its tokens, where it fits."""
        return self.records.item_bytes + FITTING.item_bytes

    @property
    def all(self) -> tuple[FileLayout, ...]:
        """The files in the order in which they are written."""
        return (self.ids, self.mask, self.records)


STREAM = FileLayout("pretrain_tokens.bin", np.dtype("<i4"))
FITTING = FileLayout("fitting.bin", np.dtype("<u4"))


def record_dtype(sides: int) -> np.dtype[np.void]:
    """The record of a row (one side) or of a pair (two)."""
    fields: list[Any] = [
        ("end", "<i8", (sides,)),
        ("first", "<i4", (sides,)),
        ("trained", "<i4", (sides,)),
        ("conversation", "<u4"),
    ]
    return np.dtype([*fields, *([("differs", "<i4"), ("real", "?")] if sides == 2 else [])])


def row_files(kind: Kind) -> RowFiles:
    """The files of an ``sft`` or ``dpo`` cache."""
    sides = 2 if kind == "dpo" else 1
    return RowFiles(
        FileLayout(f"{kind}_ids.bin", np.dtype("<i4")),
        FileLayout(f"{kind}_mask.bin", np.dtype("<i1")),
        FileLayout(f"{kind}_rows.bin", record_dtype(sides)),
        sides,
    )


def without_loss(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """Ids of a stream as they are stored if no loss falls on them; its own inverse."""
    return ~ids
