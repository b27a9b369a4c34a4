"""The tokens that each tool wrote, and whether they are those of the same documents.

Tools write in different orders, so documents are compared as a set: the sum of the SHA-256 of
every document's ids, and the numbers of documents and tokens.
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
from inputs import Inputs
from numpy.typing import NDArray

Tokens = NDArray[Any]


class Content(NamedTuple):
    """Documents, tokens with end tokens, and the sum of the documents' digests."""

    documents: int = 0
    tokens: int = 0
    digest: int = 0

    def plus(self, stream: Tokens, ends: Tokens) -> "Content":
        """With the documents of one more stream, each up to one of ``ends``."""
        parts = np.split(stream.astype("<u4"), ends[:-1]) if len(ends) else []
        digests = (hashlib.sha256(part.tobytes()).digest() for part in parts)
        total = self.digest + sum(int.from_bytes(digest, "big") for digest in digests)
        return Content(self.documents + len(ends), self.tokens + len(stream), total % (1 << 256))


def expected(inputs: Inputs) -> Content:
    """The content that tools should write, by gigatoken; the loop over ``tokenizers`` checks it."""
    engine = load_hf_json((inputs.tokenizer / "tokenizer.json").read_text())
    found = Content()
    for path in inputs.files:
        for batch in pq.ParquetFile(path).iter_batches(1_024, columns=[inputs.column]):
            layout = engine.encode_batch(batch.column(0).cast(pa.binary()).to_pylist()).layout
            borders = np.asarray(layout.offsets.data, np.int64)[1:]
            ids = np.asarray(layout.content.data, np.uint32)
            ends = borders + np.arange(1, len(borders) + 1)
            found = found.plus(np.insert(ids, borders, inputs.end_id), ends)
    return found


def verdict(streams: Iterable[Tokens], end: int, wanted: Content) -> str:
    """Whether streams hold the wanted documents, which end with ``end`` and may cross streams."""
    found, rest = Content(), np.empty(0, np.uint16)
    for stream in streams:
        tokens = np.concatenate([rest, stream])
        ends = np.flatnonzero(tokens == end) + 1
        whole = ends[-1] if len(ends) else 0
        found, rest = found.plus(tokens[:whole], ends), tokens[whole:]
    if found == wanted and not len(rest):
        return "equal"
    return f"differ: {found.documents:,} documents, {found.tokens + len(rest):,} tokens"


def verdict_on_number(streams: Iterable[Tokens], end: int, wanted: Content) -> str:
    """The same where no end tokens are written, so that only the number of ids can be compared."""
    ids = sum(map(len, streams))
    return "number equal" if ids == wanted.tokens - wanted.documents else f"{ids:,} ids"


def shards(folder: Path) -> Iterator[Tokens]:
    """Both splits of a folder that this project published."""
    for split in ("train", "val"):
        for path in sorted(folder.glob(f"{split}_*.npy")):
            yield np.load(path, mmap_mode="r")


def one_file(folder: Path) -> Iterator[Tokens]:
    """A file of 16-bit ids without a header."""
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
