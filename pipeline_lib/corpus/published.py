"""A published shard folder as training opens it: everything is checked before a token is read."""

import re
from pathlib import Path

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.layout import MANIFEST
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.mapped import MappedShard
from pipeline_lib.corpus.shards import check_shard
from pipeline_lib.corpus.state import SPLITS
from pipeline_lib.errors import DamagedFile, SourceError

_NAME = re.compile(r"[A-Za-z0-9_]+\.npy")


def open_shards(folder: Path, split: str, *, full: bool) -> tuple[Manifest, list[MappedShard]]:
    """The manifest, and the shards of one split in order.

    Digests of the manifest, names, sizes and headers are checked before; with ``full`` every shard
    is hashed as well. ``SourceError`` if the folder is not a published one, ``DamagedFile`` for a
    file that does not match its record, ``ValueError`` for an unknown split.
    """
    try:
        metadata = manifest.load(folder)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceError(
            f"{folder} has no {MANIFEST}, so it is no finished shard folder; prepare it "
            "with python -m pipeline_lib.prepare_data, or name another"
        ) from error
    wanted = next((known for known in SPLITS if known == split), None)
    if wanted is None:
        known = ", ".join(map(repr, SPLITS))
        raise ValueError(f"split is {split!r}; {folder} has {known}")
    dtype = manifest.dtype_of(metadata)
    shards = []
    for entry in metadata["shards"][wanted]:
        path = folder / entry["file"]
        if not _NAME.fullmatch(entry["file"]):
            raise DamagedFile(
                f"{folder}: its manifest leads out of it, to {entry['file']!r}; prepare the folder "
                "again"
            )
        check_shard(path, entry, dtype, full=full)
        shards.append(MappedShard(path, dtype.str, (entry["tokens"],)))
    return metadata, shards
