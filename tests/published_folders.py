"""Published shard folders, made without a run."""

from pathlib import Path
from typing import Any

import numpy as np

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.bounds import lane_end
from pipeline_lib.corpus.layout import MANIFEST, shard_name
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.shards import save_array
from pipeline_lib.storage import atomic

EOS_ID = 0
SHUFFLE = {"algorithm": "", "files": [1337, 0], "documents": [[1337, 1]]}
READER = {"interface": "", "column": "text", "batch_size": 1_024, "read": {}, "shuffle": SHUFFLE}
MEASURED: Any = {
    "elapsed_seconds": 1.0,
    "train_tokens_per_second": 1,
    "total_tokens_per_second": 1,
    "versions": {},
    "encoders": [],
    "first_rejected": [],
    "decoded_again": 0,
    "decoded_with_loss": 0,
    "code_sha256": "",
    "source_mtimes_ns": {},
}


def publish(folder: Path, *shards: list[int], dtype: str = "<u2", **other: Any) -> Path:
    """A folder as shard preparation leaves it; ``other`` is laid over the manifest's content."""
    folder.mkdir()
    records, first = [], 0
    for number, tokens in enumerate(shards):
        path = folder / shard_name("train", number, 0, 1)
        written = save_array(path, np.array(tokens, dtype))
        record = {"file": path.name, "tokens": len(tokens), "sha256": written.sha256}
        records.append({**record, "first_document": first, "first_token": 0})
        first += tokens.count(EOS_ID)
    content = _content(sum(map(len, shards)), first, dtype, records)
    for name, value in other.items():
        content[name] = {**content[name], **value} if isinstance(value, dict) else value
    atomic.save_json(folder / MANIFEST, manifest.seal(content, MEASURED))
    return folder


def _content(tokens: int, documents: int, dtype: str, shards: list[dict[str, Any]]) -> Any:
    recipe = Recipe(dataset="folder", tokenizer="local", revision="", tokenizer_revision="")
    written = {"train_documents": documents, "train_tokens": tokens}
    counts = {"rows_visited": documents, "skipped_null": 0, "skipped_blank": 0}
    counts |= {"prefetched_documents_not_written": 0} | written
    source = {"dataset": "folder", "config": None, "revision": "", "files": [], "sizes": {}}
    tokenizer = {"repository": "local", "revision": "", "sha256": "", "vocab_size": 1 << 16}
    tokenizer |= {"eos_token": "<e>", "eos_id": EOS_ID, "use_fast": True}
    return {
        "format_version": manifest.FORMAT_VERSION,
        "source": source,
        "recipe": recipe.fields(),
        "recipe_digest": recipe.digest,
        "source_digest": "",
        "split_rule": "",
        "text_rule": "",
        "tokenizer": {**tokenizer, "add_special_tokens": False, "append_eos": True},
        "dtype": dtype,
        "counts": {**counts, "val_documents": 0, "val_tokens": 0},
        "train_token_target_reached": None,
        "shards": {"train": shards, "val": []},
        "reader": READER,
        "rows_left_out": {"null": 0, "blank": 0},
        "lanes": [lane_end(recipe, 0, documents, tokens, crossed=False)],
        "unknown_tokens": 0,
    }
