"""Token shards: plain one-dimensional ``.npy`` files of a fixed number of tokens.

This module states their layout: version 1.0 of numpy's format with a header padded to 64 bytes,
then the tokens in the dtype of the header, ``<u2`` or ``<u4``. ``shard_writer`` fills shards;
``check_shard`` compares a file with its record.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import ShardRecord
from pipeline_lib.storage import atomic

_ALIGN = 64
_MAGIC = b"\x93NUMPY\x01\x00"
PUBLISHED_REMEDY = "restore it from a copy, or prepare the folder again"


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


def check_shard(
    path: Path,
    shard: ShardRecord,
    dtype: np.dtype[Any],
    *,
    full: bool = True,
    remedy: str = PUBLISHED_REMEDY,
) -> None:
    """``DamagedFile`` unless the file has the recorded size, header and, if ``full``, hash."""
    header = npy_header(shard["tokens"], dtype)
    size = len(header) + shard["tokens"] * dtype.itemsize
    if not path.is_file():
        raise DamagedFile(f"{path} is missing; {remedy}")
    if path.stat().st_size != size:
        found = path.stat().st_size
        raise DamagedFile(f"{path} has {found:,} bytes, {size:,} were recorded; {remedy}")
    with path.open("rb") as file:
        if file.read(len(header)) != header:
            raise DamagedFile(f"{path} does not begin with the recorded header; {remedy}")
    if full and (found_sha := digest.sha256_file(path)) != shard["sha256"]:
        raise DamagedFile(
            f"{path}: SHA-256 is {found_sha}, {shard['sha256']} was recorded; {remedy}"
        )
