"""Folders that must survive a crash: made, synced, renamed and removed.

A name counts only after its folder was fsynced, so whatever makes or moves one does that.
"""

import contextlib
import errno
import os
from pathlib import Path

from pipeline_lib.errors import OutputExists, PipelineError
from pipeline_lib.storage.system_calls import explain_os_errors, system


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    _sync(folder)


def sync_file(path: Path) -> None:
    """Make the content of a file written by someone else durable."""
    _sync(path)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        system.fsync(fd)
    finally:
        os.close(fd)


def sync_tree(folder: Path) -> None:
    """Make every file and name below a folder durable, the leaves first."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in sorted(names):
            sync_file(Path(root, name))
        sync_folder(Path(root))


def make_folder(folder: Path) -> None:
    """Create a folder and its missing ancestors, durably; an existing one is fine."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with contextlib.suppress(FileExistsError), explain_os_errors(folder):
        system.mkdir(folder)
    if not folder.is_dir():
        raise OutputExists(f"{folder} exists and is no folder; move it away")
    sync_folder(folder.parent)


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or folder to a name that must be free, durably on both sides."""
    try:
        with explain_os_errors(target):
            system.rename_new(str(source), str(target))
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise PipelineError(
                f"{source} and {target} are on different file systems, so the rename can not be "
                "atomic; choose an output folder whose parent is an ordinary folder"
            ) from error
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise OutputExists(
                f"{target} already exists and is never replaced; move it away or choose "
                "another folder"
            ) from error
        raise
    sync_folder(target.parent)
    if source.parent != target.parent:
        sync_folder(source.parent)


def publish_folder(staging: Path, target: Path) -> None:
    """Make a complete folder appear under its final name by one rename.

    ``OutputExists`` if the name is taken, even by an empty folder.
    """
    sync_tree(staging)
    rename_new(staging, target)


def remove_tree(path: Path) -> None:
    """Remove a folder and what is in it, or a file; an absent one is fine, and so is another
    process that removes the same."""
    while os.path.lexists(path):
        with contextlib.suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                system.rmtree(path)
            else:
                system.unlink(path)
