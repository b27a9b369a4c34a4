"""A published shard folder as training opens it: everything is checked before a token is read."""

import re
from pathlib import Path
from typing import Any

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.mapped import MappedShard
from pipeline_lib.corpus.shards import check_shard
from pipeline_lib.corpus.staging import MANIFEST
from pipeline_lib.errors import DamagedFile, SourceError

_NAME = re.compile(r"[A-Za-z0-9_]+\.npy")


def open_shards(
    folder: Path, split: str, *, full: bool
) -> tuple[dict[str, Any], list[MappedShard]]:
    """Manifest and shards of one split, after digest, names, sizes and headers were checked.

    With ``full``, every shard is hashed. ``SourceError`` if the folder is no finished one,
    ``DamagedFile`` for what does not match, ``ValueError`` for an unknown split.
    """
    try:
        metadata = manifest.load(folder)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceError(
            f"{folder} has no {MANIFEST}, so it is no finished shard folder; prepare it "
            "with python -m pipeline_lib.prepare_data, or name another"
        ) from error
    if split not in metadata["shards"]:
        known = ", ".join(map(repr, metadata["shards"]))
        raise ValueError(f"split is {split!r}; {folder} has {known}")
    dtype = manifest.dtype_of(metadata)
    shards = []
    for entry in metadata["shards"][split]:
        path = folder / entry["file"]
        if not _NAME.fullmatch(entry["file"]):
            raise DamagedFile(f"{folder}: its manifest leads out of it, to {entry['file']!r}")
        check_shard(path, entry, dtype, full=full)
        shards.append(MappedShard(path, dtype.str, (entry["tokens"],)))
    return metadata, shards
