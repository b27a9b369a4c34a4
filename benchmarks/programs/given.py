"""The arguments of the programs that are measured, and their input files."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq


def given() -> argparse.Namespace:
    """``corpus``, ``column``, ``tokenizer`` (a folder) and ``output`` (not there yet)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--column", default="text")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args()


def files(corpus: Path) -> list[Path]:
    """The parquet files in name order."""
    return sorted(corpus.glob("*.parquet"))


def texts(path: Path, column: str) -> Iterator[str]:
    """The texts of one file."""
    for batch in pq.ParquetFile(path).iter_batches(1_024, columns=[column]):
        yield from batch.column(0).to_pylist()
