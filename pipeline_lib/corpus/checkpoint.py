"""``checkpoint.json``: the one commit point of a lane, and the commit before it.

The order of a commit is its proof. Shard data is appended and fsynced; the snapshot of the shuffle
buffer is written under a new name and fsynced, and so is the folder; the old JSON gets its second
name, ``checkpoint.prev.json``; the JSON is replaced and the folder fsynced: that is the commit.
Only then the snapshots are removed that neither generation names. A crash before the replacement
leaves the old commit, a crash after it leaves the new one; there is no third state.
"""

import logging
from pathlib import Path
from typing import TypedDict

from pipeline_lib import digest
from pipeline_lib.corpus.layout import CHECKPOINT, DAMAGED, PREVIOUS, SNAPSHOTS
from pipeline_lib.corpus.snapshot import read_snapshot, write_snapshot
from pipeline_lib.corpus.state import Checkpoint, LaneState, SnapshotRecord
from pipeline_lib.errors import DamagedFile
from pipeline_lib.shuffling import ShuffleState
from pipeline_lib.storage import atomic, folders, typed_json

CHECKPOINT_VERSION = 2
_DIGEST = "checkpoint_sha256"
_LOG = logging.getLogger(__name__)


def save_checkpoint(folder: Path, state: LaneState, shuffle: ShuffleState) -> Checkpoint:
    """Commit a lane. Shard data that ``state`` counts must be fsynced before."""
    snapshot = write_snapshot(folder, state.generation, shuffle.buffer)
    folders.sync_folder(folder)
    checkpoint = Checkpoint(
        **vars(state),
        cursor=shuffle.cursor,
        draws=shuffle.draws,
        draining=shuffle.draining,
        buffer=snapshot,
    )
    fields = {"checkpoint_version": CHECKPOINT_VERSION, **typed_json.as_plain(checkpoint)}
    if (folder / CHECKPOINT).exists():
        atomic.keep_previous(folder / CHECKPOINT, folder / PREVIOUS)
    atomic.save_json(folder / CHECKPOINT, {**fields, _DIGEST: digest.of_json(fields)})
    clean_checkpoint_buffers(folder)
    return checkpoint


def read_checkpoint(path: Path) -> Checkpoint:
    """One generation, checked against its own digest.

    ``DamagedFile`` names the file and, where the digest is right and a field is not, the field.
    """
    fields = atomic.load_json(path)
    claimed = fields.pop(_DIGEST, None) if isinstance(fields, dict) else None
    if claimed is None or claimed != digest.of_json(fields):
        raise DamagedFile(f"{path} does not match its own digest; it was changed or cut")
    version = fields.get("checkpoint_version")
    if version != CHECKPOINT_VERSION:
        raise DamagedFile(
            f"{path} has format {version}, this program reads {CHECKPOINT_VERSION}; use the "
            "version that wrote it"
        )
    return typed_json.as_typed(fields, Checkpoint, str(path))


def load_shuffle(folder: Path, checkpoint: Checkpoint) -> ShuffleState:
    """The shuffle at a commit, with its buffer; ``DamagedFile`` names a bad snapshot."""
    rows = read_snapshot(folder, checkpoint.buffer)
    return ShuffleState(checkpoint.cursor, checkpoint.draws, rows, checkpoint.draining)


def exists(folder: Path) -> bool:
    """Whether a lane's folder holds a committed generation, damaged or not."""
    return bool(generations(folder))


def generations(folder: Path) -> list[Path]:
    """Paths of the generations that are there, the newest first."""
    return [folder / name for name in (CHECKPOINT, PREVIOUS) if (folder / name).exists()]


def fall_back(folder: Path) -> None:
    """Make the previous generation the current one, and keep the damaged one aside.

    Otherwise the next commit would give the damaged file the name of the previous generation.
    """
    atomic.set_aside(folder / CHECKPOINT, folder / DAMAGED)
    atomic.keep_previous(folder / PREVIOUS, folder / CHECKPOINT)  # the next commit syncs the name


def clean_checkpoint_buffers(folder: Path) -> None:
    """Remove snapshots that neither generation names; a failure is only a warning."""
    named = {_snapshot_of(folder / name) for name in (CHECKPOINT, PREVIOUS)}
    if None in named:  # a generation that can not be read may name any of them
        return
    for path in folder.glob(SNAPSHOTS):
        if path.name not in named:
            try:
                atomic.remove(path)
            except OSError as error:
                _LOG.warning("could not remove the old snapshot %s: %s", path, error)


class _NamesSnapshot(TypedDict):
    buffer: SnapshotRecord


def _snapshot_of(path: Path) -> str | None:
    """The snapshot that a generation names: "" if there is no such file, None if it is damaged."""
    if not path.exists():
        return ""
    try:
        return typed_json.load_typed(path, _NamesSnapshot)["buffer"]["file"]
    except DamagedFile:
        return None
