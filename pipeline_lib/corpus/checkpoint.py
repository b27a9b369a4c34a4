"""``checkpoint.json``: the one commit point of a lane, and its previous generation.

The order of a commit is its proof. Shard data is appended and fsynced; the snapshot of the
shuffle buffer is written under a new name and fsynced, and so is the folder; the old JSON gets
its second name, ``checkpoint.prev.json``; the JSON is replaced and the folder fsynced: that
is the commit. Only then goes what neither generation names. A crash before the replacement
leaves the old commit, after it the new one; there is no third state.
"""

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipeline_lib import digest
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import Cursor
from pipeline_lib.shuffling import Row, ShuffleState
from pipeline_lib.storage import atomic, folders

CHECKPOINT_VERSION = 1
FIRST_BUFFER = "buffer_000001.bin"
CURRENT, PREVIOUS = "checkpoint.json", "checkpoint.prev.json"
_NULL = 2**64 - 1
_LOG = logging.getLogger(__name__)


def save_checkpoint(folder: Path, fields: dict[str, Any], shuffle: ShuffleState) -> None:
    """Commit. Shard data that ``fields`` counts must be fsynced before."""
    name = f"buffer_{fields['generation']:06d}.bin"
    written = atomic.write_new(folder / name, _pack(shuffle.buffer))
    folders.sync_folder(folder)
    fields = {
        "checkpoint_version": CHECKPOINT_VERSION,
        **fields,
        "cursor": list(shuffle.cursor),
        "draws": shuffle.draws,
        "draining": shuffle.draining,
        "buffer": {"file": name, "documents": len(shuffle.buffer), "sha256": written.sha256},
    }
    sealed = {**fields, "checkpoint_sha256": digest.of_json(fields)}
    current = folder / CURRENT
    if current.exists():
        atomic.keep_previous(current, folder / PREVIOUS)
    atomic.save_json(current, sealed)
    clean_checkpoint_buffers(folder)


def clean_checkpoint_buffers(folder: Path) -> None:
    """Remove snapshots that neither generation names; a failure is only a warning."""
    named = {_buffer_name(folder / name) for name in (CURRENT, PREVIOUS)}
    if None in named:  # a generation that can not be read may name any of them
        return
    for path in folder.glob("buffer_*.bin"):
        if path.name not in named:
            try:
                atomic.remove(path)
            except OSError as error:
                _LOG.warning("could not remove the old snapshot %s: %s", path, error)


def _buffer_name(path: Path) -> str | None:
    if not path.exists():
        return ""
    try:
        return str(atomic.load_json(path)["buffer"]["file"])
    except (DamagedFile, KeyError, TypeError):
        return None


def exists(folder: Path) -> bool:
    """Whether a lane folder holds a committed generation, damaged or not."""
    return (folder / CURRENT).exists() or (folder / PREVIOUS).exists()


def generations(folder: Path) -> list[Path]:
    """Paths of the generations there are, the newest first."""
    return [folder / name for name in (CURRENT, PREVIOUS) if (folder / name).exists()]


def fall_back(folder: Path) -> None:
    """Make the previous generation the current one; the damaged one is kept aside.

    Otherwise the next commit would give the damaged file the previous generation's name.
    """
    atomic.set_aside(folder / CURRENT, folder / "checkpoint.damaged.json")
    atomic.keep_previous(folder / PREVIOUS, folder / CURRENT)
    folders.sync_folder(folder)


def read_fields(path: Path) -> dict[str, Any]:
    """The JSON of one generation, its own digest checked; ``DamagedFile`` otherwise."""
    fields = atomic.load_json(path)
    claimed = fields.pop("checkpoint_sha256", None) if isinstance(fields, dict) else None
    if claimed is None or claimed != digest.of_json(fields):
        raise DamagedFile(f"{path} does not match its own digest; it was changed or cut")
    if fields["checkpoint_version"] != CHECKPOINT_VERSION:
        raise DamagedFile(
            f"{path} has format {fields['checkpoint_version']}, this program reads "
            f"{CHECKPOINT_VERSION}; use the version that wrote it"
        )
    result: dict[str, Any] = fields
    return result


def load_buffer(folder: Path, fields: dict[str, Any]) -> ShuffleState:
    """The shuffle state that ``fields`` describes; ``DamagedFile`` names a bad snapshot."""
    record = fields["buffer"]
    path = folder / record["file"]
    if not path.exists():
        raise DamagedFile(f"the buffer snapshot {path} is missing")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != record["sha256"]:
        raise DamagedFile(f"the buffer snapshot {path} does not match its recorded SHA-256")
    rows = _unpack(memoryview(data), record["documents"])
    return ShuffleState(Cursor(*fields["cursor"]), fields["draws"], rows, fields["draining"])


def _pack(rows: list[Row]) -> Iterator[bytes]:
    """Lengths as u64le (2**64 - 1 for a null), then the documents."""
    lengths = [_NULL if row is None else len(row) for row in rows]
    yield np.array(lengths, "<u8").tobytes()
    for start in range(0, len(rows), 1024):
        yield b"".join(row for row in rows[start : start + 1024] if row is not None)


def _unpack(data: memoryview, documents: int) -> list[Row]:
    lengths = np.frombuffer(data[: 8 * documents], "<u8").tolist()
    rows: list[Row] = []
    position = 8 * documents
    for length in lengths:
        if length == _NULL:
            rows.append(None)
            continue
        rows.append(bytes(data[position : position + length]))
        position += length
    return rows
