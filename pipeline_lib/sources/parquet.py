"""Text out of Parquet files: bounded batches from any row, types checked, faults named.

A batch is bounded in bytes before it is read. The footer states the size of a column chunk, but
values of a dictionary page can repeat, so a tiny file may expand a thousandfold. The header of the
dictionary page bounds the size of its largest value. The size of a page can not be bounded here,
because a page is always decompressed as a whole.
"""

import hashlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_lib.columns import is_text, plain_type
from pipeline_lib.errors import ColumnError, DamagedFile, SourceError
from pipeline_lib.hub.footers import has_encrypted_columns
from pipeline_lib.shuffling import Row

BATCH_BYTES = 64 << 20
BATCH_ROWS = 512
READ_SETTINGS = {"batch_rows": BATCH_ROWS, "batch_bytes": BATCH_BYTES, "pre_buffer": False}
INTERFACE = "pyarrow.parquet.ParquetFile.iter_batches"
_MAGIC = b"PAR1"


class Footer(NamedTuple):
    """The size of a file in bytes, and the hex SHA-256 of its footer."""

    size: int
    sha256: str


def footer(path: Path) -> Footer:
    """Digest of the Parquet footer; ``DamagedFile`` if the file does not end in one."""
    if not path.is_file():
        raise DamagedFile(
            f"{path} is named like a Parquet file but is none, or a link that leads nowhere; "
            "restore it or remove it from the folder"
        )
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - 8, 0))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if size < 12 or tail[4:] != _MAGIC or length + 12 > size:
            raise DamagedFile(
                f"{path} ({size:,} bytes) does not end in a Parquet footer, so it was cut off or "
                "is not Parquet; fetch it again or remove it from the folder"
            )
        file.seek(size - 8 - length)
        return Footer(size, hashlib.sha256(file.read(length)).hexdigest())


def open_file(path: Path) -> pq.ParquetFile:
    """The open file; ``DamagedFile`` if it is not Parquet."""
    try:
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    except (pa.ArrowInvalid, OSError) as error:
        raise DamagedFile(f"{path} can not be read as Parquet: {error}; fetch it again") from error


def may_be_encrypted(file: pq.ParquetFile, path: Path) -> bool:
    """Whether some columns of an open file may be encrypted: see ``has_encrypted_columns``."""
    with path.open("rb") as opened:
        opened.seek(-8, 2)
        return has_encrypted_columns(file.metadata, opened.read(8))


def open_text(path: Path, column: str) -> pq.ParquetFile:
    """The open file, after a check that ``column`` is there, holds text and is not encrypted."""
    file = open_file(path)
    try:
        check_text_column(file.schema_arrow, column, str(path))
        if may_be_encrypted(file, path):
            _check_readable(file, path, column)
    except BaseException:
        file.close()
        raise
    return file


def _check_readable(file: pq.ParquetFile, path: Path, column: str) -> None:
    try:
        for group in range(min(file.num_row_groups, 1)):
            next(file.iter_batches(1, row_groups=[group], columns=[column]), None)
    except OSError as error:
        raise ColumnError(
            f"{path}: column `{column}` is encrypted ({error}); decrypt the file, or choose "
            "another column with --text-column"
        ) from error


def check_text_column(schema: pa.Schema, column: str, where: str) -> None:
    """``ColumnError`` unless ``column`` is one text column of ``schema``."""
    texts = [field.name for field in schema if is_text(plain_type(field.type))]
    known = f"text columns there: {', '.join(texts) or 'none'}; choose one with --text-column"
    found = schema.get_all_field_indices(column)
    if len(found) != 1:
        raise ColumnError(f"{where}: {len(found)} columns are named `{column}`, need one; {known}")
    kind = schema.field(found[0]).type
    if not is_text(plain_type(kind)) and not pa.types.is_null(kind):
        raise ColumnError(f"{where}: column `{column}` is {kind}, not text; {known}")


def parquet_texts(
    path: Path, column: str, first: int = 0
) -> Generator[tuple[int, list[Row]], None, None]:
    """Rows of one file from row ``first`` on, in batches of (number of the first row, UTF-8 rows).

    Row groups before ``first`` are not read. ``DamagedFile`` names file and row of text that is not
    UTF-8. The file is closed on early exit too.
    """
    file = open_text(path, column)
    try:
        start = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if start + rows > first and rows:
                yield from _group_texts(file, path, column, group, start, first)
            start += rows
    finally:
        file.close()


def _group_texts(
    file: pq.ParquetFile, path: Path, column: str, group: int, start: int, first: int
) -> Generator[tuple[int, list[Row]], None, None]:
    size = _batch_rows(file, path, column, group)
    end = start + file.metadata.row_group(group).num_rows
    try:
        for batch in file.iter_batches(size, row_groups=[group], columns=[column]):
            skip = min(max(first - start, 0), batch.num_rows)
            for begin, part in _bounded(_plain(batch.column(0)), skip):
                yield start + begin, _rows(part, path, start + begin)
            start += batch.num_rows
        if start != end:  # Arrow ends without an error where a file ends too early
            raise DamagedFile(
                f"{path}: row group {group} ends at row {start:,}, its footer says {end:,}; fetch "
                "the file again"
            )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise DamagedFile(
            f"{path}: row group {group} can not be read near row {start}: {error}; "
            "fetch the file again"
        ) from error


def _plain(array: pa.Array) -> pa.Array:
    """The same text without a dictionary and without views, because those give no lengths."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def _bounded(array: pa.Array, first: int) -> Iterator[tuple[int, pa.Array]]:
    """A batch from row ``first`` on, in parts of at most ``BATCH_BYTES``, or of a single row.

    A batch is sized by the mean row, so it is too large if a few rows are far longer.
    """
    if first == len(array):
        return
    if array.nbytes <= BATCH_BYTES:
        yield first, array.slice(first)
        return
    from pyarrow.compute import binary_length  # slow to import, and seldom needed

    # Arrow's own ways to numpy, and its fill_null, would import pandas, which takes a second.
    ends = np.cumsum([length or 0 for length in binary_length(array).to_pylist()])
    while first < len(array):
        before = int(ends[first - 1]) if first else 0
        stop = max(int(np.searchsorted(ends, before + BATCH_BYTES, "right")), first + 1)
        yield first, array.slice(first, stop - first)
        first = stop


def _rows(array: pa.Array, path: Path, first: int) -> list[Row]:
    kind = array.type
    if pa.types.is_null(kind):
        return [None] * len(array)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _not_utf8(array.cast(pa.large_binary()).to_pylist(), path, first) from error
    binary = pa.binary() if pa.types.is_string(array.type) else pa.large_binary()
    rows: list[Row] = array.cast(binary).to_pylist()
    return rows


def _not_utf8(rows: list[Row], path: Path, first: int) -> DamagedFile:
    for number, row in enumerate(rows, first):
        try:
            (row or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            return DamagedFile(f"{path}, row {number}: text is not UTF-8 ({error}); repair the row")
    return DamagedFile(f"{path}, from row {first}: the text column is not valid Arrow data")


def _batch_rows(file: pq.ParquetFile, path: Path, column: str, group: int) -> int:
    chunk = _column_chunk(file, group, column)
    if chunk is None:
        return BATCH_ROWS
    rows = max(file.metadata.row_group(group).num_rows, 1)
    largest = max(chunk.total_uncompressed_size // rows, _largest_repeated(path, chunk), 1)
    return int(min(max(BATCH_BYTES // largest, 1), BATCH_ROWS))


def _column_chunk(file: pq.ParquetFile, group: int, column: str) -> Any:
    """The facts of one column; of others nothing is asked, because they may be encrypted."""
    for index in range(len(file.schema)):
        if file.schema.column(index).path == column:
            return file.metadata.row_group(group).column(index)
    return None


def _largest_repeated(path: Path, chunk: Any) -> int:
    """Upper bound in bytes of a value that several rows of the chunk may share.

    The header of the dictionary page is a Thrift compact struct (``PageHeader`` in parquet-format):
    page type, uncompressed size, compressed size, perhaps a checksum, then a struct that begins
    with the number of values. Each number is a zigzag varint. The byte before it holds the distance
    to the number of the last field.
    """
    if not chunk.has_dictionary_page or chunk.dictionary_page_offset is None:
        return 0
    with path.open("rb") as file:
        file.seek(chunk.dictionary_page_offset)
        header = file.read(64)
    try:
        return _largest_in(header, chunk.num_values)
    except (IndexError, SourceError) as error:
        raise DamagedFile(
            f"{path}: the header of a dictionary page can not be read; fetch the file again"
        ) from error


def _largest_in(header: bytes, values_in_chunk: int) -> int:
    fields, number, position = {}, 0, 0
    while number < 6:
        number += header[position] >> 4
        if number < 7:
            fields[number], position = _varint(header, position + 1)
    values, _ = _varint(header, position + 2)
    every_value_once = values >> 1 >= values_in_chunk
    return 0 if every_value_once else fields[2] >> 1


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
    raise SourceError("a Parquet page header ends in the middle of a number")
