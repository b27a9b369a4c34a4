"""Keyed folders with committed content."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline_lib.storage.growing_folder import GrowingFolder
from pipeline_lib.storage.keyed_folder import KeyedFolder

KEY = {"tok_sha": "a" * 64, "max_len": 512}


def folder_with(
    root: Path,
    kind: str,
    key: dict[str, Any],
    files: Mapping[str, bytes] = {},
    *,
    complete: bool = True,
    details: int = 0,
) -> KeyedFolder:
    """A keyed folder with one commit of five units and these files."""
    folder = KeyedFolder(root, kind, key)
    with GrowingFolder(folder, int, 0) as writer:
        for name, data in files.items():
            writer.append(name, data)
        writer.advance(5, details)
        writer.commit(complete=complete)
    (folder.path / "lock").unlink()
    return folder
