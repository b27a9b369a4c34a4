"""The folder a run works in, beside the folder it will publish.

<name>.incomplete/        lock, checkpoint.json, checkpoint.prev.json, buffer_*.bin
    open/                 shards that still grow
    payload/              complete shards and, last, metadata.json
    lane_03/              a lane's own checkpoint when there are several lanes
    discarded             only while the folder is being removed: what is left then is no run
<name>/                   appears once, by one rename of payload/
"""

import contextlib
import errno
import logging
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from pipeline_lib.corpus import checkpoint
from pipeline_lib.errors import NothingToResume, OutputExists, PipelineError
from pipeline_lib.storage import atomic, folders
from pipeline_lib.storage.lock import FolderLock

MANIFEST = "metadata.json"
LOCK, DISCARDED = "lock", "discarded"
_LOG = logging.getLogger(__name__)
_OS_FILES = re.compile(
    r"\.DS_Store|\._.*|\.localized|\.Spotlight-V100|\.Trashes|\.fseventsd|Thumbs\.db|ehthumbs\.db"
    r"|desktop\.ini|\.directory|\.nfs[0-9a-f]+|\.fuse_hidden[0-9a-f]+|\.ipynb_checkpoints",
    re.IGNORECASE,
)


def staging_of(output_dir: Path) -> Path:
    """The working folder that belongs to an output folder."""
    return output_dir.with_name(output_dir.name + ".incomplete")


def target_of(output_dir: Path | str) -> Path:
    """The absolute output folder; ``ValueError`` if its last part is no name."""
    path = Path(output_dir)
    if path.name in ("", ".."):
        raise ValueError(f"output_dir is {str(output_dir)!r}; give a folder with a name")
    return path.absolute()


def lane_folder(staging: Path, lane: int, lanes: int) -> Path:
    """Where a lane keeps its checkpoint: the staging folder itself when it is the only one."""
    return staging / f"lane_{lane:02d}" if lanes > 1 else staging


def is_discarded(staging: Path) -> bool:
    """Whether a run died while it removed its working folder, so that nothing in it counts."""
    return (staging / DISCARDED).exists()


def is_os_file(name: str) -> bool:
    """Whether a file of that name is what a desktop or file system leaves in any folder."""
    return _OS_FILES.fullmatch(name) is not None


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
    if not staging.exists() or is_discarded(staging):
        return False
    if any(checkpoint.exists(folder) for folder in [staging, *staging.glob("lane_*")]):
        return True
    _require_untouched(staging)
    return False


def _require_untouched(staging: Path) -> None:
    """Before the first commit a run leaves only its rooms, a lock and the first snapshot."""
    rooms = {LOCK, "open", "payload", checkpoint.CURRENT + ".tmp", checkpoint.FIRST_BUFFER}
    names = {name for _, inner, files in os.walk(staging) for name in (*inner, *files)} - rooms
    more = sorted(n for n in names if not n.startswith("lane_") and not is_os_file(n))
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


def require(output_dir: Path, resume: bool | str) -> None:
    """Refuse what does not fit: ``resume`` as ``prepare`` takes it."""
    if resume is False:
        require_fresh(output_dir)
    elif resume is True:
        require_unfinished(output_dir)
    else:
        has_commit(staging_of(output_dir))  # refuses a folder that is none of ours


@contextlib.contextmanager
def occupied(staging: Path) -> Iterator[None]:
    """Hold the working folder, made if absent; ``Locked`` if another process does."""
    with contextlib.ExitStack() as held:
        while True:
            folders.make_folder(staging)
            with contextlib.suppress(FileNotFoundError):  # its last holder has just removed it
                held.enter_context(FolderLock(staging / LOCK))
                break
        yield


def make(staging: Path, lanes: int) -> None:
    """Create the rooms of an occupied working folder, durably, after taking out what is left
    of a discarded run."""
    if is_discarded(staging):
        _empty(staging)
        atomic.remove(staging / DISCARDED)
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


def clear_payload(payload: Path, named: Collection[str]) -> None:
    """Before publication: take out what an operating system left there.

    ``OutputExists`` for any other file that is not ``named``.
    """
    for path in sorted(payload.iterdir()):
        if path.name in named or path.name in (MANIFEST, MANIFEST + ".tmp"):
            continue
        if not is_os_file(path.name) or path.is_dir():
            raise OutputExists(
                f"{path} is in the folder to be published but no run has written it; move it "
                "away, then go on with --resume"
            )
        atomic.remove(path)


def discard(staging: Path) -> None:
    """Remove an occupied working folder; a failure is only a warning.

    A mark goes in first and comes out last, so a run that dies in between leaves a folder which
    the next one knows for refuse.
    """
    try:
        atomic.write_new(staging / DISCARDED, [])
        folders.sync_folder(staging)
        _empty(staging)
        folders.remove_tree(staging)
    except (OSError, PipelineError) as error:
        if getattr(error, "errno", None) != errno.ENOTEMPTY:  # the next process is in there
            _LOG.warning("could not remove %s (%s); nothing in it is needed", staging, error)


def discard_leftover(staging: Path) -> None:
    """Beside a published folder, discard what is no run any more: its payload was published."""
    if is_discarded(staging) or not (staging / "payload").exists():
        discard(staging)


def _empty(staging: Path) -> None:
    """Durably remove all but the mark and the lock."""
    for path in sorted(staging.iterdir()):
        if path.name not in (DISCARDED, LOCK):
            folders.remove_tree(path)
    folders.sync_folder(staging)
