"""Small corpora, tokenizers and recipes that the tests of the shard preparer share.

All text is made here from a counter, so every test knows the rows it wrote, and two machines
write the same ones.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from loopback_hub.publish import byte_level_tokenizer
from numpy.typing import NDArray

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.prepare import PrepareOptions
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.staging import MANIFEST

EOS = "<|endoftext|>"
WORDS = [
    "the", "of", "river", "and", "stone", "to", "light", "in", "a", "wind", "that", "hill", "under",
    "birds", "sing", "while", "rain", "fell",
]  # fmt: skip
REFERENCE = PrepareOptions(encoder="tokenizers")
"""The reference encoder starts without a probe, which many short runs would notice."""


def text(number: int) -> str:
    """Document ``number``: between one and some thirty words, no two alike."""
    seeds = hashlib.sha256(str(number).encode()).digest()
    words = [WORDS[byte % len(WORDS)] for byte in seeds[: 1 + seeds[0] % 30]]
    return f"{' '.join(words)} {number}."


def texts(count: int, first: int = 0) -> list[str]:
    """Documents ``first`` to ``first + count``."""
    return [text(number) for number in range(first, first + count)]


def rows(count: int, first: int = 0) -> list[str | None]:
    """Documents with a null, an empty and a white-space row among each fifty."""
    special: dict[int, str | None] = {7: None, 19: "", 31: " \n\u3000\t"}
    return [special.get(n % 50, text(n)) for n in range(first, first + count)]


def write_parquet(path: Path, values: Sequence[str | None], group: int = 16) -> Path:
    """A file with one text column, in row groups of ``group`` rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"text": pa.array(values, pa.string())})
    pq.write_table(table, path, row_group_size=group)
    return path


def folder_of(folder: Path, count: int = 120, files: int = 3) -> Path:
    """A corpus of ``count`` rows in ``files`` files."""
    size = -(-count // files)
    for number in range(files):
        first = number * size
        write_parquet(folder / f"part-{number}.parquet", rows(min(size, count - first), first))
    return folder


@cache
def tokenizer_bytes() -> bytes:
    """A byte-level BPE of 300 ids trained on a few of the documents."""
    return byte_level_tokenizer(texts(50), vocab_size=300)


def tokenizer_file(folder: Path, data: bytes | None = None, **config: Any) -> Path:
    """``tokenizer.json`` in a folder of its own; ``config`` makes a tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    path.write_bytes(data or tokenizer_bytes())
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def small_recipe(folder: Path, **changes: Any) -> Recipe:
    """A recipe over ``folder/corpus`` with ``folder/tokenizer``, both made if absent.

    Sizes are small, so that 120 rows make several shards, batches and buffers.
    """
    if not (folder / "corpus").exists():
        folder_of(folder / "corpus")
    if not (folder / "tokenizer").exists():
        tokenizer_file(folder / "tokenizer")
    sizes: dict[str, Any] = {
        "dataset": str(folder / "corpus"),
        "config": None,
        "tokenizer": str(folder / "tokenizer"),
        "max_documents": 1_000,
        "val_fraction": 0.2,
        "shard_tokens": 500,
        "shuffle_buffer": 20,
        "tokenization_batch_size": 16,
    }
    return Recipe(**(sizes | changes))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a published folder; of the manifest all but what was measured."""
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    data = {name: path.read_bytes() for name, path in found.items()}
    if MANIFEST in data:
        found = json.loads(data[MANIFEST])
        content = manifest.content_of(found) | {"content_sha256": found["content_sha256"]}
        data[MANIFEST] = json.dumps(content).encode()
    return data


def tokens_of(folder: Path, split: str) -> NDArray[Any]:
    """All tokens of one split, shard after shard, as the manifest lists them."""
    shards = json.loads((folder / MANIFEST).read_bytes())["shards"][split]
    return np.concatenate([np.load(folder / shard["file"], mmap_mode="r") for shard in shards])


def documents_of(folder: Path, split: str, eos: int) -> list[list[int]]:
    """The ids of each document of one split, end tokens taken off."""
    ids = tokens_of(folder, split).tolist()
    found: list[list[int]] = [[]]
    for token in ids:
        if token == eos:
            found.append([])
        else:
            found[-1].append(token)
    return found[:-1]


def non_blank(values: Iterable[str | None]) -> list[str]:
    """The rows that become documents."""
    return [value for value in values if value is not None and value.strip()]
