"""Changes of a published folder with right digests, as a bug might make them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.layout import MANIFEST
from pipeline_lib.corpus.shards import save_array
from pipeline_lib.storage import atomic


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest and seal it again."""
    fields = json.loads((folder / MANIFEST).read_bytes())
    change(fields)
    sealed = manifest.seal(manifest.content_of(fields), fields["measured"])
    atomic.save_json(folder / MANIFEST, sealed)


def replace_shard(
    folder: Path, change: Callable[[NDArray[Any]], object], number: int = 0, split: str = "train"
) -> None:
    """Write a shard anew with other tokens, as many or fewer, and record its right hash."""
    path = folder / f"{split}_{number:05d}.npy"
    tokens = np.load(path)
    changed = change(tokens)
    tokens = changed if isinstance(changed, np.ndarray) else tokens
    written = save_array(path, tokens)
    record = {"sha256": written.sha256, "tokens": len(tokens)}
    edit(folder, lambda fields: fields["shards"][split][number].update(record))
