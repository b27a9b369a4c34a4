"""The staging folder of a run: whether it may be used, who uses it, how it is made and removed.

``layout`` names the files in it. Nothing in it counts before the first commit; nothing is removed
or written in a folder that no run of ours has made.
"""

import contextlib
import errno
import logging
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from pipeline_lib.corpus import checkpoint
from pipeline_lib.corpus.layout import (
    CHECKPOINT,
    DISCARDED,
    LOCK,
    MANIFEST,
    MISMATCH,
    OPEN,
    PAYLOAD,
    checkpoint_folders,
    lane_folder,
    shard_pattern,
    snapshot_name,
    staging_folder,
)
from pipeline_lib.errors import EncoderMismatch, NothingToResume, OutputExists, PipelineError
from pipeline_lib.storage import atomic, folders
from pipeline_lib.storage.lock import FolderLock

_LOG = logging.getLogger(__name__)
_OS_FILES = re.compile(
    r"\.DS_Store|\._.*|\.localized|\.Spotlight-V100|\.Trashes|\.fseventsd|Thumbs\.db|ehthumbs\.db"
    r"|desktop\.ini|\.directory|\.nfs[0-9a-f]+|\.fuse_hidden[0-9a-f]+|\.ipynb_checkpoints",
    re.IGNORECASE,
)


def is_os_file(name: str) -> bool:
    """Whether a desktop or a file system leaves files of that name in any folder."""
    return _OS_FILES.fullmatch(name) is not None


def is_published(output: Path) -> bool:
    """Whether the folder is a published one; ``OutputExists`` if it is there and is not."""
    if not output.exists() and not output.is_symlink():
        return False
    if not (output / MANIFEST).is_file():
        raise OutputExists(
            f"{output} exists but has no {MANIFEST}, so it is not a finished run and is left "
            "alone; move it away or choose another output folder"
        )
    return True


def is_being_removed(staging: Path) -> bool:
    """Whether a run died while it removed its staging folder, so that nothing in it counts."""
    return (staging / DISCARDED).exists()


def has_commit(staging: Path) -> bool:
    """Whether a run committed anything there; ``OutputExists`` for a folder that is not ours."""
    if not staging.exists() or is_being_removed(staging):
        return False
    if any(checkpoint.exists(folder) for folder in checkpoint_folders(staging)):
        return True
    _require_untouched(staging)
    return False


def _require_untouched(staging: Path) -> None:
    """Before its first commit a run leaves only folders, a lock, and files of that commit."""
    ours = {LOCK, OPEN, PAYLOAD, CHECKPOINT + ".tmp", snapshot_name(1)}
    names = {name for _, inner, files in os.walk(staging) for name in (*inner, *files)} - ours
    more = sorted(n for n in names if not n.startswith("lane_") and not is_os_file(n))
    if more:
        raise OutputExists(
            f"{staging} holds {', '.join(more[:3])} but no {CHECKPOINT}, so the checkpoint was "
            f"lost or the folder is none of ours; restore {CHECKPOINT} from a copy, or move the "
            "folder away and start again"
        )


def require_sound(staging: Path) -> None:
    """``EncoderMismatch`` if an encoder was found wrong there: what is written can not be trusted.

    No encoder makes it right, because documents that are committed are not encoded again.
    """
    for folder in checkpoint_folders(staging):
        if (folder / MISMATCH).exists() and not is_being_removed(staging):
            raise EncoderMismatch(
                f"the fast encoder gave wrong ids in the run in {staging} (evidence: "
                f"{folder / MISMATCH}), and documents that are written are not encoded again; "
                "remove that folder and run again with --encoder tokenizers"
            )


def require_fresh(output: Path) -> None:
    """``OutputExists`` unless output and staging folder are free for a fresh run."""
    staging = staging_folder(output)
    if is_published(output):
        raise OutputExists(
            f"{output} is already complete and is never overwritten; choose another output "
            "folder, or give --resume to have its metadata returned"
        )
    if has_commit(staging):
        raise OutputExists(
            f"{staging} holds an unfinished run; go on with it by --resume, or remove that folder "
            "to start again"
        )


def require_unfinished(output: Path) -> None:
    """``NothingToResume`` unless there is a committed run to go on with."""
    if not has_commit(staging_folder(output)):
        raise NothingToResume(
            f"there is no unfinished run for {output}; leave --resume out to start one"
        )


def require_fit(output: Path, resume: bool | str) -> None:
    """Refuse a run that does not fit the folders; ``resume`` is as ``prepare`` takes it."""
    require_sound(staging_folder(output))
    if resume is False:
        require_fresh(output)
    elif resume is True:
        require_unfinished(output)
    else:
        has_commit(staging_folder(output))  # refuses a folder that is none of ours


@contextlib.contextmanager
def locked_staging(staging: Path) -> Iterator[None]:
    """Hold the staging folder, which is made if absent; ``Locked`` if another process does."""
    with contextlib.ExitStack() as held:
        while True:
            folders.make_folder(staging)
            with contextlib.suppress(FileNotFoundError):  # its last holder has just removed it
                held.enter_context(FolderLock(staging / LOCK))
                break
        yield


def make_folders(staging: Path, lanes: int) -> None:
    """Make the folders inside a locked staging folder, durably.

    If a run died while it removed the folder, the rest of its files is removed first.
    """
    if is_being_removed(staging):
        _remove_contents(staging)
        atomic.remove(staging / DISCARDED)
    for folder in (staging, staging / OPEN, staging / PAYLOAD):
        folders.make_folder(folder)
    for lane in range(lanes):
        folders.make_folder(lane_folder(staging, lane, lanes))


def remove_unnamed_shards(staging: Path, lane: int, lanes: int, named: Collection[str]) -> None:
    """Remove the shard files of one lane that its checkpoint does not name."""
    for folder in (staging / OPEN, staging / PAYLOAD):
        for path in folder.glob(shard_pattern(lane, lanes)):
            if path.name not in named:
                atomic.remove(path)


def clean_payload(payload: Path, named: Collection[str]) -> None:
    """Before publication: remove from the payload the files that an operating system left there.

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


def remove_staging(staging: Path) -> None:
    """Remove a locked staging folder; a failure is only a warning.

    A mark goes in first and comes out last. So a run that dies in between leaves a folder of which
    the next run knows that nothing in it counts.
    """
    try:
        atomic.write_new(staging / DISCARDED, [])
        folders.sync_folder(staging)
        _remove_contents(staging)
        folders.remove_tree(staging)
    except (OSError, PipelineError) as error:
        if getattr(error, "errno", None) != errno.ENOTEMPTY:  # the next process is in there
            _LOG.warning("could not remove %s (%s); nothing in it is needed", staging, error)


def remove_published_staging(staging: Path) -> None:
    """Remove the staging folder beside a published folder, if no run can go on in it.

    None can if its payload is gone, because that became the published folder, or if the folder was
    being removed already.
    """
    if is_being_removed(staging) or not (staging / PAYLOAD).exists():
        remove_staging(staging)


def _remove_contents(staging: Path) -> None:
    """Durably remove everything but the mark and the lock."""
    for path in sorted(staging.iterdir()):
        if path.name not in (DISCARDED, LOCK):
            folders.remove_tree(path)
    folders.sync_folder(staging)
