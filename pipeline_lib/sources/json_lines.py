"""JSON Lines as tables of a known schema: only the columns that are asked for, with their types.

JSON states no types. A type that is guessed from the first rows of a file may be wrong for later
rows, because a column may begin with nulls. So the wanted columns are read with the wanted types
and all others are left out. A value of another type is an error. Half a surrogate pair is no text;
it becomes U+FFFD and is counted.
"""

import io
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.json as paj

from pipeline_lib.columns import Columns, check_columns
from pipeline_lib.errors import SourceError

_SUFFIXES = (".jsonl", ".ndjson")
_PACKED = tuple(f"{suffix}.gz" for suffix in _SUFFIXES)
BLOCK_BYTES = 4 << 20

_SURROGATES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""An escaped backslash, a whole pair, or half a pair (the group)."""
_LOG = logging.getLogger(__name__)

Blocks = Iterable[bytes]


def is_lines(name: str) -> bool:
    """Whether a file holds JSON Lines, packed or not, by its name."""
    return name.endswith(_SUFFIXES + _PACKED)


def is_packed(name: str) -> bool:
    """Whether JSON Lines are packed, so that they can only be unpacked from their start."""
    return name.endswith(_PACKED)


def file_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a local file, unpacked if its name ends in ``.gz``."""
    with pa.input_stream(str(path)) as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def line_tables(files: Iterable[tuple[str, Blocks]], columns: Columns) -> Iterator[pa.Table]:
    """All rows of the files, each given by name and bytes, as tables of exactly ``columns``.

    Blocks may end anywhere; some megabytes are held at a time. If a row lacks a column, its value
    is null. ``SourceError`` names the place that can not be read. ``ColumnError`` names a column,
    or a field inside one, that no row in the first block of a file has.
    """
    schema = pa.schema(list(columns.items()))
    for name, blocks in files:
        line, checked = 1, False
        for lines in _whole_lines(blocks):
            where = f"{name}, in the block of lines that begins at {line:,}"
            table = _table(lines, schema, where)
            if not checked and table.num_rows:
                check_columns(_named(table, lines), columns, name)
                checked = True
            yield table
            line += lines.count(b"\n")


def _whole_lines(blocks: Blocks) -> Iterator[bytes]:
    held: list[bytes] = []
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*held, block[:cut]])
            held = []
        held.append(block[cut:])
    rest = b"".join(held)
    if rest.strip():
        yield rest


def _table(lines: bytes, schema: pa.Schema, where: str) -> pa.Table:
    try:
        return _read_mended(lines, schema, where)
    except pa.ArrowInvalid as error:
        reason = " ".join(str(error).split())
        raise SourceError(
            f"{where}: {reason}. Expected {', '.join(f'{f.name}: {f.type}' for f in schema)}; pin "
            "an earlier revision in download_data.py, or correct the columns there"
        ) from error


def _read_mended(lines: bytes, schema: pa.Schema, where: str) -> pa.Table:
    try:
        return _read(lines, schema)
    except pa.ArrowInvalid as error:
        mended, halves = _mended(lines) if "surrogate" in str(error) else (lines, 0)
        if not halves:
            raise
    _LOG.warning("%s: %s halves of surrogate pairs became U+FFFD", where, f"{halves:,}")
    return _read(mended, schema)


def _read(lines: bytes, schema: pa.Schema) -> pa.Table:
    read = paj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    parse = paj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    table = paj.read_json(io.BytesIO(lines), read_options=read, parse_options=parse)
    table.validate(full=True)  # finds text that is not UTF-8
    return table if table.num_columns else schema.empty_table()


def _mended(lines: bytes) -> tuple[bytes, int]:
    halves = sum(match[1] is not None for match in _SURROGATES.finditer(lines))
    return _SURROGATES.sub(lambda m: rb"\ufffd" if m[1] else m[0], lines), halves


def _named(table: pa.Table, lines: bytes) -> pa.Schema:
    """The schema without the columns and fields that the lines never name."""
    columns = zip(table.schema, table.itercolumns(), strict=True)
    return pa.schema(
        [
            (field.name, _named_type(column.combine_chunks(), lines))
            for field, column in columns
            if _names(lines, field)
        ]
    )


def _named_type(values: pa.Array, lines: bytes) -> pa.DataType:
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return pa.list_(_named_type(values.flatten(), lines))
    if not pa.types.is_struct(values.type) or values.null_count == len(values):
        return values.type  # no object is there, so no field can be missing
    there = [field for field in values.type if _names(lines, field)]
    return pa.struct([(f.name, _named_type(values.field(f.name), lines)) for f in there])


def _names(lines: bytes, field: pa.Field) -> bool:
    return f'"{field.name}"'.encode() in lines
