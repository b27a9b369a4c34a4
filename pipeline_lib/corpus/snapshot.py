"""The documents in a shuffle buffer as one file, so that a resumed lane need not read them again.

The file holds the length of each document as u64le (2**64 - 1 for a null), then the documents
themselves, UTF-8, one after another.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pipeline_lib.corpus.layout import snapshot_name
from pipeline_lib.corpus.state import SnapshotRecord
from pipeline_lib.errors import DamagedFile
from pipeline_lib.shuffling import Row
from pipeline_lib.storage import atomic

_LENGTH = np.dtype("<u8")
_NULL = 2**64 - 1
_JOINED = 1_024


def write_snapshot(folder: Path, generation: int, rows: Sequence[Row]) -> SnapshotRecord:
    """Write the documents of a buffer, fsynced; the name is durable once the folder is synced."""
    name = snapshot_name(generation)
    written = atomic.write_new(folder / name, _pack(rows))
    return SnapshotRecord(file=name, documents=len(rows), sha256=written.sha256)


def read_snapshot(folder: Path, record: SnapshotRecord) -> list[Row]:
    """The documents of a buffer; ``DamagedFile`` if the file is not as recorded."""
    path = folder / record["file"]
    if not path.exists():
        raise DamagedFile(f"the buffer snapshot {path} is missing")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != record["sha256"]:
        raise DamagedFile(f"the buffer snapshot {path} does not match its recorded SHA-256")
    return _unpack(memoryview(data), record["documents"])


def _pack(rows: Sequence[Row]) -> Iterator[bytes]:
    lengths = [_NULL if row is None else len(row) for row in rows]
    yield np.array(lengths, _LENGTH).tobytes()
    for start in range(0, len(rows), _JOINED):
        yield b"".join(row for row in rows[start : start + _JOINED] if row is not None)


def _unpack(data: memoryview, documents: int) -> list[Row]:
    position = _LENGTH.itemsize * documents
    rows: list[Row] = []
    for length in np.frombuffer(data[:position], _LENGTH).tolist():
        if length == _NULL:
            rows.append(None)
            continue
        rows.append(bytes(data[position : position + length]))
        position += length
    return rows
