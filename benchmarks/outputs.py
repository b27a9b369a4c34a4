"""What each way of preparing wrote, as token streams, and whether that is the same.

Orders differ, so documents are compared as a set: the sum of the SHA-256 of every document's
ids, and the number of tokens.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from gigatoken.gigatoken_rs import load_hf_json
from numpy.typing import NDArray

Tokens = NDArray[Any]


class Content(NamedTuple):
    """Documents, tokens with end tokens, and the order-free digest of the documents."""

    documents: int = 0
    tokens: int = 0
    digest: int = 0

    def plus(self, stream: Tokens, lengths: Iterable[int]) -> "Content":
        """With the documents of one more stream; ``lengths`` count the end tokens."""
        documents, digest, place = 0, 0, 0
        for length in lengths:
            data = stream[place : place + length].astype("<u4").tobytes()
            digest += int.from_bytes(hashlib.sha256(data).digest(), "big")
            documents, place = documents + 1, place + length
        total = (self.digest + digest) % (1 << 256)
        return Content(self.documents + documents, self.tokens + len(stream), total)


def expected(files: Iterable[Path], column: str, tokenizer: Path, end: int) -> list[Content]:
    """The content after each file, by gigatoken; the plain loop over ``tokenizers`` checks it."""
    engine = load_hf_json((tokenizer / "tokenizer.json").read_text())
    found = Content()
    after = []
    for path in files:
        for batch in pq.ParquetFile(path).iter_batches(1_024, columns=[column]):
            texts = batch.column(0).cast(pa.binary()).to_pylist()
            layout = engine.encode_batch(texts).layout
            borders = np.asarray(layout.offsets.data, np.int64)
            stream = np.insert(np.asarray(layout.content.data, np.uint32), borders[1:], end)
            found = found.plus(stream, (np.diff(borders) + 1).tolist())
        after.append(found)
    return after


def content(streams: Iterable[Tokens], end: int) -> Content:
    """The content of streams whose documents end with ``end``; they may cross streams."""
    found, rest = Content(), np.empty(0, np.uint16)
    for stream in streams:
        tokens = np.concatenate([rest, stream]) if len(rest) else stream
        ends = np.flatnonzero(tokens == end) + 1
        whole = int(ends[-1]) if len(ends) else 0
        lengths = np.diff(np.concatenate([[0], ends]))
        found = found.plus(tokens[:whole], lengths.tolist())
        rest = tokens[whole:]
    return found._replace(tokens=found.tokens + len(rest))


def ours(folder: Path) -> Iterator[Tokens]:
    """Both splits of a published folder; documents may cross shards."""
    for split in ("train", "val"):
        for path in sorted(folder.glob(f"{split}_*.npy")):
            yield np.load(path, mmap_mode="r")


def one_file(folder: Path) -> Iterator[Tokens]:
    """A headerless file of 16-bit ids."""
    yield np.fromfile(folder / "train.bin", "<u2")


def datatrove(folder: Path) -> Iterator[Tokens]:
    """The shuffled file of each worker."""
    for path in sorted((folder / "tokens").glob("*_shuffled.ds")):
        yield np.fromfile(path, "<u2")


def litdata(folder: Path) -> Iterator[Tokens]:
    """The chunks; each begins with a count, offsets and then the ids of whole documents."""
    index = json.loads((folder / "tokens" / "index.json").read_text())
    for chunk in index["chunks"]:
        header = (chunk["chunk_size"] + 2) * 4
        yield np.fromfile(folder / "tokens" / chunk["filename"], "<u2", offset=header)
