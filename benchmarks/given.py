"""What a program is given: arguments, and the documents of a folder of parquet files."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq

FOLDERS = ("corpus", "tokenizer", "output", "conversations", "shards", "stream", "chunks")


def arguments(**defaults: object) -> SimpleNamespace:
    """The JSON object in the only argument, above ``defaults``; folders become paths."""
    found = json.loads(sys.argv[1])
    paths = {name: Path(found[name]) for name in FOLDERS if name in found}
    return SimpleNamespace(**defaults | found | paths)


def files(corpus: Path) -> list[Path]:
    """The parquet files in name order."""
    return sorted(corpus.glob("*.parquet"))


def texts(path: Path, column: str) -> Iterator[str]:
    """The texts of one file."""
    for batch in pq.ParquetFile(path).iter_batches(1_024, columns=[column]):
        yield from batch.column(0).to_pylist()


def first_texts(corpus: Path, column: str, size: int) -> Iterator[str]:
    """Texts from the start of every file, about ``size`` bytes in all."""
    for path in files(corpus):
        left = size // len(files(corpus))
        for text in texts(path, column):
            if left <= 0:
                break
            left -= len(text.encode())
            yield text
