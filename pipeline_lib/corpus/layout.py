"""The names of files and folders in a run's two folders, each written down once.

<name>.incomplete/          the staging folder, beside the folder that it will become
    lock                    held by the process that works there
    checkpoint.json         the last commit; checkpoint.prev.json is the commit before it
    checkpoint.damaged.json a commit that could not be read, kept for people to look at
    buffer_000007.bin       the documents in the shuffle buffer at commit 7
    encoder_mismatch.txt    a document that the fast encoder got wrong; nobody goes on beside it
    lane_03/                checkpoint and buffer of one lane, where there are several lanes
    open/                   shards that still grow
    payload/                complete shards and, last of all, metadata.json
    discarded               there only while the folder is being removed: then it holds no run
<name>/                     the published folder: payload/, renamed in one step
    metadata.json           the manifest
    train_00000.npy         shards; with several lanes they are named train_l03_00000.npy
"""

from pathlib import Path

MANIFEST = "metadata.json"
LOCK, DISCARDED = "lock", "discarded"
OPEN, PAYLOAD = "open", "payload"
CHECKPOINT, PREVIOUS = "checkpoint.json", "checkpoint.prev.json"
DAMAGED, MISMATCH = "checkpoint.damaged.json", "encoder_mismatch.txt"
SNAPSHOTS, LANES = "buffer_*.bin", "lane_*"
"""Patterns of the snapshots in a lane's folder and of the lanes' folders in a staging folder."""


def absolute_output(output_dir: Path | str) -> Path:
    """The absolute path of an output folder; ``ValueError`` if its last part is no name."""
    path = Path(output_dir)
    if path.name in ("", ".."):
        raise ValueError(f"output_dir is {str(output_dir)!r}; give a folder with a name")
    return path.absolute()


def staging_folder(output: Path) -> Path:
    """The staging folder that belongs to an output folder."""
    return output.with_name(output.name + ".incomplete")


def lane_folder(staging: Path, lane: int, lanes: int) -> Path:
    """Where a lane keeps its checkpoint: in the staging folder itself when it is the only lane."""
    return staging / f"lane_{lane:02d}" if lanes > 1 else staging


def checkpoint_folders(staging: Path) -> list[Path]:
    """The folders of a staging folder in which a lane may keep its checkpoint."""
    return [staging, *sorted(staging.glob(LANES))]


def snapshot_name(generation: int) -> str:
    """File name of the shuffle buffer at a commit; generations are counted from 1."""
    return f"buffer_{generation:06d}.bin"


def shard_name(split: str, number: int, lane: int, lanes: int) -> str:
    """``train_00003.npy``; ``train_l02_00003.npy`` when there are several lanes."""
    middle = f"_l{lane:02d}" if lanes > 1 else ""
    return f"{split}{middle}_{number:05d}.npy"


def shard_pattern(lane: int, lanes: int) -> str:
    """The pattern that the names of one lane's shards match, of both splits."""
    return f"*_l{lane:02d}_*.npy" if lanes > 1 else "*.npy"
