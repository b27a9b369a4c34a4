"""Streams of Arrow tables: Parquet files of any shape in bounded pieces, cut and sampled.

Rows never become Python objects here. 64 rows are read at a time, because a nested column can not
be read at all if its text passes 2 GiB in one read, and because a tiny file may expand a
thousandfold. They are joined into pieces of about ``PIECE_BYTES``.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline_lib.columns import Columns, check_columns, is_read, plain_type, text_bytes
from pipeline_lib.errors import ColumnError, DamagedFile
from pipeline_lib.sources.parquet import may_be_encrypted, open_file

PIECE_BYTES = 16 << 20
PIECE_ROWS = 1_000
_READ_ROWS = 64

Indices = NDArray[np.int64]


def parquet_schema(paths: Sequence[Path], columns: Columns) -> pa.Schema:
    """The one schema of several files, after each was checked against the wanted columns.

    A column that is all null in one file takes its type from the others. ``ColumnError`` names
    the file that does not fit; ``DamagedFile`` names a file that is not Parquet.
    """
    schema = pa.schema([])
    for path in paths:
        with _open_whole(path) as file:
            found = _plain(file.schema_arrow)
        check_columns(found, columns, str(path), nulls=True)
        try:
            known = [schema] if schema.names else []
            schema = pa.unify_schemas([*known, found], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise ColumnError(
                f"{path} does not fit the files before it: {error}. Pin another revision"
            ) from error
    check_columns(schema, columns, "all files together")
    return schema


def _open_whole(path: Path) -> pq.ParquetFile:
    """The open file, of which every column is to be read."""
    file = open_file(path)
    if may_be_encrypted(file, path):
        file.close()
        raise ColumnError(f"{path} has encrypted columns, and all are read; decrypt the file")
    return file


def parquet_size(path: Path, columns: Columns) -> tuple[int, int]:
    """Rows of a file, and uncompressed bytes of what ``columns`` names in it, by its footer."""
    with _open_whole(path) as file:
        groups = [file.metadata.row_group(g) for g in range(file.num_row_groups)]
        leaves = [group.column(c) for group in groups for c in range(group.num_columns)]
        read = [leaf for leaf in leaves if is_read(leaf.path_in_schema, columns)]
        return file.metadata.num_rows, sum(leaf.total_uncompressed_size for leaf in read)


def parquet_tables(paths: Iterable[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """All rows of the files in order, as tables of exactly ``schema``, bounded in bytes.

    If a file lacks a column, its values are null; a column that the schema lacks is left out.
    """
    for path in paths:
        with open_file(path) as file:
            for piece in _joined(_batches(file, path)):
                yield conform(piece, schema, str(path))


def conform(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """The table with exactly the fields and types of ``schema``; ``ColumnError`` if it can not."""
    try:
        arrays = [
            table.column(field.name).cast(field.type)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in schema
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ColumnError(f"{where} can not be read as {schema.names}: {error}") from error
    return pa.Table.from_arrays(arrays, schema=schema)


def first_rows(tables: Iterable[pa.Table], limit: int) -> Iterator[pa.Table]:
    """The first ``limit`` rows."""
    for table in tables:
        yield table.slice(0, limit)
        limit -= table.num_rows
        if limit <= 0:
            return


def first_bytes(tables: Iterable[pa.Table], limit: int, columns: Columns) -> Iterator[pa.Table]:
    """The longest start of the rows whose text in ``columns`` fits into ``limit`` UTF-8 bytes."""
    for table in tables:
        size = _text_bytes(table, columns)
        if size > limit:
            yield table.slice(0, _rows_within(table, limit, columns))
            return
        limit -= size
        yield table


def picked_rows(tables: Iterable[pa.Table], indices: Indices) -> Iterator[pa.Table]:
    """The rows with these numbers, which must be sorted."""
    start = 0
    for table in tables:
        stop = start + table.num_rows
        first, last = np.searchsorted(indices, [start, stop])
        if last > first:
            yield table.take(pa.array(indices[first:last] - start))
        start = stop


def _plain(schema: pa.Schema) -> pa.Schema:
    fields = [pa.field(field.name, plain_type(field.type)) for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def _batches(file: pq.ParquetFile, path: Path) -> Iterator[pa.RecordBatch]:
    groups = [g for g in range(file.num_row_groups) if file.metadata.row_group(g).num_rows]
    try:
        for group in groups:
            yield from file.iter_batches(_READ_ROWS, row_groups=[group])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise DamagedFile(f"{path} can not be read: {error}; fetch it again") from error


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        held.append(batch)
        size, rows = size + batch.nbytes, rows + batch.num_rows
        if size >= PIECE_BYTES or rows >= PIECE_ROWS:
            yield pa.Table.from_batches(held).combine_chunks()
            held, size, rows = [], 0, 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _text_bytes(table: pa.Table, columns: Columns) -> int:
    return sum(
        text_bytes(chunk, kind)
        for name, kind in columns.items()
        for chunk in table.column(name).chunks
    )


def _rows_within(table: pa.Table, limit: int, columns: Columns) -> int:
    low, high = 0, table.num_rows
    while low < high:
        middle = (low + high + 1) // 2
        fits = _text_bytes(table.slice(0, middle), columns) <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
