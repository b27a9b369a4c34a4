"""Small corpora, tokenizers and recipes that the tests of the shard preparer share.

All text is made from a counter, so every test knows its rows, and every machine writes the same
ones.
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
from pipeline_lib.corpus.layout import MANIFEST
from pipeline_lib.corpus.options import PrepareOptions
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.state import (
    BySplit,
    Checkpoint,
    LaneState,
    Locations,
    ReaderMetadata,
    ShuffleMetadata,
    SnapshotRecord,
)
from pipeline_lib.records import Cursor, TokenizerMetadata, WriterState

EOS = "<|endoftext|>"
WORDS = [
    "the", "of", "river", "and", "stone", "to", "light", "in", "a", "wind", "that", "hill", "under",
    "birds", "sing", "while", "rain", "fell",
]  # fmt: skip
REFERENCE = PrepareOptions(encoder="tokenizers")
"""The reference encoder starts without a probe, which saves time in many short runs."""


def text(number: int) -> str:
    """Document ``number``: 1 to 30 words and the number, so no two are equal."""
    seeds = hashlib.sha256(str(number).encode()).digest()
    words = [WORDS[byte % len(WORDS)] for byte in seeds[: 1 + seeds[0] % 30]]
    return f"{' '.join(words)} {number}."


def texts(count: int, first: int = 0) -> list[str]:
    """``count`` documents from number ``first`` on."""
    return [text(number) for number in range(first, first + count)]


def rows(count: int, first: int = 0) -> list[str | None]:
    """Documents; among every fifty rows one is null, one empty, and one white space."""
    special: dict[int, str | None] = {7: None, 19: "", 31: " \n\u3000\t"}
    return [special.get(n % 50, text(n)) for n in range(first, first + count)]


def write_parquet(path: Path, values: Sequence[str | None], group: int = 16) -> Path:
    """A file with one text column, in row groups of ``group`` rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"text": pa.array(values, pa.string())})
    pq.write_table(table, path, row_group_size=group)
    return path


def with_other_text(path: Path) -> None:
    """Write other text behind the same size and the same footer: both were made by ``plain``."""
    before = path.read_bytes()
    path.write_bytes(before.replace(b"river", b"RIVER"))
    assert path.read_bytes() != before


def plain(path: Path) -> Path:
    """Write a file anew so that its text can be changed without changing size or footer."""
    table = pq.read_table(path)
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    pq.write_table(table, path, row_group_size=16, write_statistics=False, **options)
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


def lane_state(**changes: Any) -> LaneState:
    """The state of a lane that has visited nothing; ``changes`` replace fields of it."""
    nothing = WriterState(shards=[], open=None, documents=0, tokens=0)
    shuffle = ShuffleMetadata(algorithm="", files=[1337, 0], documents=[[1337, 1]])
    reader = ReaderMetadata(
        files=["a"], sizes={"a": 1}, footers={}, interface="parquet", column="text",
        batch_size=16, read={"pre_buffer": False, "batch_rows": 512}, shuffle=shuffle,
    )  # fmt: skip
    tokenizer = TokenizerMetadata(
        repository="local", revision="", sha256="", vocab_size=300, eos_token=EOS, eos_id=0,
        use_fast=True, add_special_tokens=False, append_eos=True,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "generation": 1, "lane": 0, "finished": False, "recipe": Recipe(dataset="folder").fields(),
        "tokenizer": tokenizer, "reader": reader, "source_files": {},
        "locations": Locations(dataset="/corpus", tokenizer="/tokenizer"), "versions": {},
        "encoders": [], "rejected": {}, "first_rejected": [],
        "losses": {"unknown_tokens": 0, "compared": 0, "lost": 0},
        "source_rows_visited": 0, "source_digest": "00" * 32, "nulls": 0,
        "blanks": 0, "prefetched_documents_not_written": 0, "train_token_target_reached": None,
        "writers": BySplit(train=nothing, val=nothing), "elapsed_seconds": 0.0,
    }  # fmt: skip
    return LaneState(**(fields | changes))


def a_checkpoint(**changes: Any) -> Checkpoint:
    """A commit of such a state, whose buffer is empty."""
    buffer = SnapshotRecord(file="buffer_000001.bin", documents=0, sha256="")
    state = vars(lane_state(**changes))
    return Checkpoint(**state, cursor=Cursor(0, 0), draws=0, draining=False, buffer=buffer)


def contents(folder: Path) -> dict[str, bytes]:
    """Name -> bytes of every file below a published folder; the manifest without measurements."""
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
    """The ids of each document of one split, without end tokens."""
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
