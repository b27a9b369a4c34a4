"""Where a document stands in the source: a shuffled row is looked for in the rows read last."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing

from pipeline_lib.records import Cursor
from pipeline_lib.sources.corpus_source import CorpusSource, blocks

NEAR_ROWS = 50_000
SECONDS = 20.0
"""A text that is not found in that time is named without its place."""


def place_of(
    source: CorpusSource, files: Sequence[str], column: str, text: bytes, cursor: Cursor
) -> tuple[str, int] | None:
    """File and row number of a text (UTF-8) that was read before ``cursor``; None if not found.

    The shuffle holds a row for a while, seldom for long, so the rows before the cursor are searched
    first, then its whole file, then the files before it.
    """
    deadline = time.monotonic() + SECONDS
    for start, stop in _stretches(cursor, len(files)):
        if time.monotonic() > deadline:
            return None
        with closing(blocks(source, files, column, start)) as found:
            for block in found:
                if (block.file, block.first) >= (stop.file, stop.row):
                    break
                if text in block.rows:
                    return files[block.file], block.first + block.rows.index(text)
                if time.monotonic() > deadline:
                    return None
    return None


def _stretches(cursor: Cursor, files: int) -> Iterator[tuple[Cursor, Cursor]]:
    last = min(cursor.file, files - 1)
    near = max(0, cursor.row - NEAR_ROWS) if cursor.file == last else 0
    yield Cursor(last, near), Cursor(last + 1, 0)
    if near:
        yield Cursor(last, 0), Cursor(last, near)
    for file in range(last - 1, -1, -1):
        yield Cursor(file, 0), Cursor(file + 1, 0)
