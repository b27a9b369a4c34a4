"""Folders that must survive a crash: make, sync, rename and remove them.

A name is durable only after its folder was fsynced, so every function that makes or moves a name
does that.
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
    """Make the content of a file durable that other code wrote."""
    _sync(path)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        system.fsync(fd)
    finally:
        os.close(fd)


def sync_tree(folder: Path) -> None:
    """Make every file and name below a folder durable, the deepest folders first."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in sorted(names):
            sync_file(Path(root, name))
        sync_folder(Path(root))


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, durably; ``OutputExists`` if a file has its name."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with contextlib.suppress(FileExistsError), explain_os_errors(folder):
        system.mkdir(folder)
    if not folder.is_dir():
        raise OutputExists(f"{folder} exists and is no folder; move it away")
    sync_folder(folder.parent)


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or folder durably; ``OutputExists`` if the new name is taken.

    ``PipelineError`` if the two names are on different file systems.
    """
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


def replace_folder(folder: Path, target: Path, aside: Path) -> None:
    """Give ``folder`` the name of ``target``, which then lies at ``folder`` or ``aside``, durably.

    On a file system that can not exchange two names the target is moved to ``aside`` first; if the
    process dies between the two renames, ``aside`` still holds all of it.
    """
    try:
        system.exchange(str(folder), str(target))
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
            raise
        rename_new(target, aside)
        rename_new(folder, target)
        return
    sync_folder(target.parent)
    sync_folder(folder.parent)


def remove_tree(path: Path) -> None:
    """Remove a folder with its content, or a file.

    An absent path is fine, also if another process removes it at the same time.
    """
    while os.path.lexists(path):
        with contextlib.suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                system.rmtree(path)
            else:
                system.unlink(path)
