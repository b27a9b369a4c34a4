"""Published shard folders, made without a run."""

from pathlib import Path
from typing import Any

import numpy as np

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.shards import save_array
from pipeline_lib.storage import atomic


def publish(folder: Path, *shards: list[int], dtype: str = "<u2", **other: Any) -> Path:
    """A folder as shard preparation leaves it."""
    folder.mkdir()
    entries = []
    for number, tokens in enumerate(shards):
        path = folder / f"train_{number:05d}.npy"
        written = save_array(path, np.array(tokens, dtype))
        entries.append({"file": path.name, "tokens": len(tokens), "sha256": written.sha256})
    shards = {"train": entries, "val": []}
    content = {"format_version": manifest.FORMAT_VERSION, "dtype": dtype, "shards": shards} | other
    atomic.save_json(folder / "metadata.json", manifest.seal(content, {"seconds": 1}))
    return folder
