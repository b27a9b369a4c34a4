"""The interface of a source of documents, be it a folder or a Hub dataset.

A source is a pinned set of Parquet files. It has an identity (dataset, config, revision), it lists
its files with their sizes, and it hands out each file by name, verified.
"""

from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import Cursor, SourceFile
from pipeline_lib.shuffling import RowBlock
from pipeline_lib.sources.parquet import parquet_texts


class CorpusSource(Protocol):
    """A pinned set of Parquet files.

    ``files`` are sorted by name; each has the facts that are known before it is opened. ``seals``
    holds the size, SHA-256 and time of change of each local file from when it was first opened.
    """

    files: list[SourceFile]
    seals: dict[str, SourceFile]

    @property
    def dataset(self) -> str:
        """Repository, or ``"folder"``: a path is no identity."""

    @property
    def config(self) -> str | None:
        """Config of a Hub dataset."""

    @property
    def revision(self) -> str:
        """Commit id, or ``sha256:`` and the digest of a folder's listing."""

    @property
    def location(self) -> str:
        """Repository or absolute path: where the source was found, which is no part of an
        identity."""

    def path(self, name: str) -> Path:
        """A local, verified copy of one file."""

    def check_unchanged(self, name: str) -> None:
        """``SourceChanged`` if a file that ``path`` gave has other content now."""

    def sha256(self, name: str) -> str:
        """Hex SHA-256 of a file that was opened."""

    def rows_by_file(self) -> dict[str, int] | None:
        """Name -> rows of each file, or ``None`` where that needs a large transfer."""

    def rows_of(self, names: Iterable[str]) -> int | None:
        """Rows in some files, or ``None`` where that needs any transfer."""


def check_sealed(source: CorpusSource, seals: Mapping[str, SourceFile]) -> None:
    """Take over the seals of an earlier run; ``SourceChanged`` names a file that differs from its
    seal."""
    source.seals.update(seals)
    for name in seals:
        source.path(name)


def blocks(
    source: CorpusSource, names: Iterable[str], column: str, start: Cursor
) -> Generator[RowBlock, None, None]:
    """Rows of the named files, in that order, from ``start`` on.

    ``start.file`` and ``RowBlock.file`` are places in ``names``. Each block is given only after a
    look at its file: rows of a file that changes while it is read are never handed on.
    ``SourceChanged`` names such a file.
    """
    for number, name in enumerate(names):
        if number < start.file:
            continue
        first = start.row if number == start.file else 0
        try:
            for row, rows in parquet_texts(source.path(name), column, first):
                source.check_unchanged(name)
                yield RowBlock(number, row, rows)
        except DamagedFile:
            source.check_unchanged(name)  # perhaps it is damaged because it changes
            raise
