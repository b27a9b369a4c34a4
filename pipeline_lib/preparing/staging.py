"""The folder a run works in, beside the folder it will publish.

<name>.incomplete/        lock, checkpoint.json, checkpoint.prev.json, buffer_*.bin
    open/                 shards that still grow
    payload/              complete shards and, last, metadata.json
    lane_03/              a lane's own checkpoint when there are several lanes
<name>/                   appears once, by one rename of payload/
"""

import re
from pathlib import Path

from pipeline_lib import checkpoint
from pipeline_lib.durable import atomic, folders
from pipeline_lib.errors import NothingToResume, OutputExists

MANIFEST = "metadata.json"
LOCK = "lock"
_DROPPING = re.compile(
    r"\.DS_Store|\._.*|\.localized|\.Spotlight-V100|\.Trashes|\.fseventsd|Thumbs\.db|ehthumbs\.db"
    r"|desktop\.ini|\.directory|\.nfs[0-9a-f]+|\.fuse_hidden[0-9a-f]+|\.ipynb_checkpoints",
    re.IGNORECASE,
)


def staging_of(output_dir: Path) -> Path:
    """The working folder that belongs to an output folder."""
    return output_dir.with_name(output_dir.name + ".incomplete")


def lane_folder(staging: Path, lane: int, lanes: int) -> Path:
    """Where a lane keeps its checkpoint: the staging folder itself when it is the only one."""
    return staging / f"lane_{lane:02d}" if lanes > 1 else staging


def is_dropping(name: str) -> bool:
    """Whether a file of that name is what a desktop or file system leaves in any folder."""
    return _DROPPING.fullmatch(name) is not None


def is_published(output_dir: Path) -> bool:
    """Whether the folder is a finished one; ``OutputExists`` if it is there and is not."""
    if not output_dir.exists() and not output_dir.is_symlink():
        return False
    if not (output_dir / MANIFEST).is_file():
        raise OutputExists(
            f"{output_dir} exists but has no {MANIFEST}, so it is not a finished run and is left "
            "alone; move it away or choose another output folder"
        )
    return True


def has_commit(staging: Path) -> bool:
    """Whether a run committed anything there; ``OutputExists`` for a folder that is not ours."""
    if not staging.exists():
        return False
    if any(checkpoint.exists(folder) for folder in [staging, *staging.glob("lane_*")]):
        return True
    _require_untouched(staging)
    return False


def _require_untouched(staging: Path) -> None:
    """Before the first commit a run leaves only its rooms, a lock and the first snapshot."""
    rooms = {LOCK, "open", "payload", checkpoint.CURRENT + ".tmp", checkpoint.FIRST_BUFFER}
    found = [path for path in staging.rglob("*") if path.name not in rooms]
    more = sorted(path.name for path in found if not path.name.startswith("lane_"))
    if more:
        raise OutputExists(
            f"{staging} holds {', '.join(more[:3])} but no checkpoint.json, so the checkpoint was "
            "lost or the folder is none of ours; restore checkpoint.json from a copy, or move the "
            "folder away and start again"
        )


def require_fresh(output_dir: Path) -> None:
    """``OutputExists`` unless output and staging folder are free for a fresh run."""
    staging = staging_of(output_dir)
    if is_published(output_dir):
        raise OutputExists(
            f"{output_dir} is already complete and is never overwritten; choose another output "
            "folder, or give --resume to have its metadata returned"
        )
    if has_commit(staging):
        raise OutputExists(
            f"{staging} holds an unfinished run; go on with it by --resume, or remove that folder "
            "to start again"
        )


def require_unfinished(output_dir: Path) -> None:
    """``NothingToResume`` unless there is a committed run to go on with."""
    if not has_commit(staging_of(output_dir)):
        raise NothingToResume(
            f"there is no unfinished run for {output_dir}; leave --resume out to start one"
        )


def make(staging: Path, lanes: int) -> None:
    """Create the working folder with its rooms, durably."""
    for folder in (staging, staging / "open", staging / "payload"):
        folders.make_folder(folder)
    for lane in range(lanes):
        folders.make_folder(lane_folder(staging, lane, lanes))


def sweep(staging: Path, lane_files: str, named: set[str]) -> None:
    """Remove one lane's shard files that its checkpoint does not name."""
    for room in ("open", "payload"):
        for path in (staging / room).glob(lane_files):
            if path.name not in named:
                atomic.remove(path)
