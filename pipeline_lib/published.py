"""A published shard folder as a reader sees it: the manifest is checked before a token is read."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from pipeline_lib import atomic, digest
from pipeline_lib.errors import DamagedFile, SourceError
from pipeline_lib.windows import MappedShard

MANIFEST = "metadata.json"
_AGAIN = "prepare the shards again, or restore the folder from a copy"
_UNDIGESTED = ("measured", "content_sha256")
_NAME = re.compile(r"[A-Za-z0-9_]+\.npy")


def content_sha256(metadata: dict[str, Any]) -> str:
    """The manifest's digest of itself, without what depends on time, machine or luck."""
    return digest.of_json({k: v for k, v in metadata.items() if k not in _UNDIGESTED})


def load_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a published folder; ``DamagedFile`` if it is not what was written."""
    path = folder / MANIFEST
    if not path.is_file():
        raise SourceError(
            f"{folder} has no {MANIFEST}, so it is no finished shard folder; {_AGAIN}"
        )
    metadata = atomic.load_json(path)
    if not isinstance(metadata, dict) or metadata.get("content_sha256") != content_sha256(metadata):
        raise DamagedFile(f"{path} does not match its own digest: it was changed; {_AGAIN}")
    return metadata


def open_shards(
    folder: Path, split: str, *, full: bool
) -> tuple[dict[str, Any], list[MappedShard]]:
    """Manifest and shards of one split, after names, sizes and headers were checked.

    With ``full``, every shard is hashed. ``ValueError`` for an unknown split.
    """
    metadata = load_manifest(folder)
    shards: dict[str, list[dict[str, Any]]] = metadata["shards"]
    if split not in shards:
        raise ValueError(f"split is {split!r}; {folder} has {', '.join(map(repr, shards))}")
    dtype = np.dtype(metadata["dtype"])
    return metadata, [_open(folder, entry, dtype, full) for entry in shards[split]]


def _open(folder: Path, entry: dict[str, Any], dtype: "np.dtype[Any]", full: bool) -> MappedShard:
    path, tokens = folder / entry["file"], int(entry["tokens"])
    if not _NAME.fullmatch(entry["file"]):
        raise DamagedFile(f"{folder / MANIFEST} names the file {entry['file']!r}; {_AGAIN}")
    if not path.is_file():
        raise DamagedFile(f"{path} is missing, the manifest names it; {_AGAIN}")
    found = _layout(path)
    if found != (dtype.str, (tokens,), path.stat().st_size):
        raise DamagedFile(
            f"{path} has dtype and shape {found[:2]} in a file of {path.stat().st_size:,} bytes, "
            f"expected {dtype.str} and {(tokens,)}, which takes {found[2]:,}; {_AGAIN}"
        )
    if full and digest.sha256_file(path) != entry["sha256"]:
        raise DamagedFile(f"{path} has another SHA-256 than the manifest says; {_AGAIN}")
    return MappedShard(path, dtype.str, (tokens,))


def _layout(path: Path) -> tuple[str, tuple[int, ...], int]:
    """dtype, shape, and the bytes a file with this header takes."""
    with path.open("rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise ValueError(f"version {version}")
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        except ValueError as error:
            raise DamagedFile(f"{path} has no valid .npy header ({error}); {_AGAIN}") from error
        return dtype.str, shape, file.tell() + int(np.prod(shape)) * dtype.itemsize
