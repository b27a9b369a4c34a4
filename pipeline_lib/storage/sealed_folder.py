"""Folders that are either complete or absent: built in a staging folder, hashed, then renamed.

A folder is built in ``<name>.incomplete/payload``, under a lock. Its manifest is written last and
lists the other files; one rename then gives the folder its final name. A folder without a matching
manifest counts as absent; files that the manifest does not list are ignored.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline_lib import digest
from pipeline_lib.storage import folders, typed_json
from pipeline_lib.storage.file_checks import check_sha256, check_size
from pipeline_lib.storage.lock import FolderLock

_ASIDE = "replaced"
"""Where a folder waits that is being replaced, inside the staging folder."""


@dataclass(frozen=True)
class SealedFile:
    """One file of a sealed folder: its path below the folder, size in bytes, hex SHA-256."""

    name: str
    size: int
    sha256: str


@contextlib.contextmanager
def building(target: Path) -> Iterator[Path]:
    """An empty, locked staging folder beside ``target``; the caller fills its folder ``payload``.

    The remains of an interrupted build are removed first, but a folder that it was about to replace
    gets its name back. ``Locked`` if another process builds.
    """
    staging = target.with_name(target.name + ".incomplete")
    folders.make_folder(staging)
    with FolderLock(staging / "lock"):
        if (staging / _ASIDE).exists() and not target.exists():
            folders.rename_new(staging / _ASIDE, target)
        for entry in staging.iterdir():
            if entry.name != "lock":
                folders.remove_tree(entry)
        folders.make_folder(staging / "payload")
        yield staging
        folders.remove_tree(staging)


def list_files(folder: Path) -> list[SealedFile]:
    """All files below a folder with size and SHA-256, sorted by path."""
    return [
        SealedFile(
            path.relative_to(folder).as_posix(), path.stat().st_size, digest.sha256_file(path)
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]


def publish(
    payload: Path, target: Path, name: str, manifest: Any, *, replace: bool = False
) -> None:
    """Write the manifest as ``payload/name`` and rename ``payload`` to ``target``, durably.

    ``OutputExists`` if ``target`` exists, unless ``replace``.
    """
    folders.sync_tree(payload)
    typed_json.save_typed(payload / name, manifest)
    if replace and target.exists():
        folders.replace_folder(payload, target, payload.with_name(_ASIDE))
    else:
        folders.rename_new(payload, target)


def check_files(folder: Path, files: Iterable[SealedFile], remedy: str, *, full: bool) -> None:
    """``DamagedFile`` for the first file with another size or, if ``full``, another SHA-256."""
    for file in files:
        check_size(folder / file.name, file.size, remedy)
        if full:
            check_sha256(folder / file.name, file.sha256, remedy)
