"""Arrow tables out of odd parquet files, in bounded pieces, cut by rows and bytes."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_lib.errors import ColumnError, DamagedFile
from pipeline_lib.sources import row_stream

TEXT = {"text": pa.string()}


def write(path: Path, table: pa.Table, **more: object) -> Path:
    sink = io.BytesIO()
    pq.write_table(table, sink, **more)
    path.write_bytes(sink.getvalue())
    return path


def texts(*values: str | None) -> pa.Table:
    return pa.table({"text": pa.array(values, pa.string())})


def read(*paths: Path) -> list[str | None]:
    schema = row_stream.parquet_schema(paths, TEXT)
    tables = row_stream.parquet_tables(paths, schema)
    return [row for table in tables for row in table.column("text").to_pylist()]


NUMBERS = {"n": pa.int64()}


def numbers(*sizes: int) -> Iterator[pa.Table]:
    start = 0
    for size in sizes:
        yield pa.table({"n": pa.array(range(start, start + size))})
        start += size


def seen(tables: Iterator[pa.Table]) -> list[int]:
    return [n for table in tables for n in table.column("n").to_pylist()]


def test_files_without_rows_or_row_groups_are_fine(tmp_path: Path) -> None:
    empty_group = write(tmp_path / "a.parquet", texts())
    with pq.ParquetWriter(tmp_path / "b.parquet", texts().schema):
        pass
    rows = write(tmp_path / "c.parquet", texts("x", None))
    assert read(empty_group, tmp_path / "b.parquet", rows) == ["x", None]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_column_that_is_all_null_in_one_file_takes_its_type_from_the_others(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    nulls = write(tmp_path / "a.parquet", pa.table({"text": pa.nulls(2)}))
    rows = write(tmp_path / "b.parquet", texts("x"))
    files = [(nulls, rows)[place] for place in order]
    assert sorted(read(*files), key=str) == [None, None, "x"]


def test_dictionary_encoded_text_is_plain_text(tmp_path: Path) -> None:
    coded = pa.table({"text": pa.array(["a", "b", "a", None]).dictionary_encode()})
    assert read(write(tmp_path / "a.parquet", coded)) == ["a", "b", "a", None]


def test_a_retyped_column_names_the_file_and_both_types(tmp_path: Path) -> None:
    good = write(tmp_path / "a.parquet", texts("x"))
    bad = write(tmp_path / "b.parquet", pa.table({"text": pa.array([1])}))
    with pytest.raises(ColumnError, match=r"b.parquet: `text` is int64, expected string"):
        read(good, bad)


def test_columns_that_only_some_files_have_are_null_elsewhere(tmp_path: Path) -> None:
    first = write(tmp_path / "a.parquet", texts("x"))
    second = write(tmp_path / "b.parquet", texts("y").append_column("more", pa.array([1])))
    schema = row_stream.parquet_schema([first, second], TEXT)
    tables = list(row_stream.parquet_tables([first, second], schema))
    assert [t.column("more").to_pylist() for t in tables] == [[None], [1]]


def test_a_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", texts("x"))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DamagedFile, match=r"a.parquet can not be read as Parquet"):
        read(path)


def test_a_small_file_that_expands_is_read_in_bounded_pieces(tmp_path: Path) -> None:
    table = pa.table({"text": pa.array(["x" * (1 << 20)] * 300)})
    path = write(tmp_path / "a.parquet", table)
    assert path.stat().st_size < 1 << 20
    schema = row_stream.parquet_schema([path], TEXT)
    pieces = list(row_stream.parquet_tables([path], schema))
    assert sum(piece.num_rows for piece in pieces) == 300
    assert max(piece.nbytes for piece in pieces) < 80 << 20


def test_first_rows_stops_where_it_should() -> None:
    assert seen(row_stream.first_rows(numbers(3, 3, 3), 4)) == [0, 1, 2, 3]
    assert seen(row_stream.first_rows(numbers(3, 3), 3)) == [0, 1, 2]
    assert seen(row_stream.first_rows(numbers(3, 3), 99)) == [0, 1, 2, 3, 4, 5]


def test_first_bytes_keeps_the_longest_prefix_that_fits() -> None:
    assert seen(row_stream.first_bytes(numbers(3, 3, 3), 8 * 5, NUMBERS)) == [0, 1, 2, 3, 4]
    assert seen(row_stream.first_bytes(numbers(3, 3), 8 * 5 + 7, NUMBERS)) == [0, 1, 2, 3, 4]
    assert seen(row_stream.first_bytes(numbers(3), 7, NUMBERS)) == []
    assert seen(row_stream.first_bytes(numbers(3, 3), 1 << 20, NUMBERS)) == [0, 1, 2, 3, 4, 5]


def test_a_byte_limit_counts_the_text_of_the_wanted_columns_alone() -> None:
    texts = ["aaaa", "é" * 500, None, "cccc", ""]
    rows = pa.table({"text": pa.array(texts), "url": pa.array(["http://" * 99] * 5)})
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        found = rows.set_column(0, "text", rows.column("text").cast(kind))
        for limit, count in ((3, 0), (4, 1), (1_003, 1), (1_004, 3), (1_007, 3), (1_008, 5)):
            (kept,) = row_stream.first_bytes([found], limit, {"text": pa.string()})
            assert (kept.num_rows, kept.column_names) == (count, ["text", "url"])


def test_a_byte_limit_counts_the_texts_inside_lists_and_structs() -> None:
    turns = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    wanted = {"turns": pa.list_(pa.struct([("content", pa.string())]))}
    row = [{"role": "user", "content": "1234"}, {"role": "assistant", "content": "56"}]
    rows = pa.table({"turns": pa.array([row, None, [], row, row], turns)}).slice(1)
    for limit, count in ((5, 2), (6, 3), (11, 3), (12, 4)):
        (kept,) = row_stream.first_bytes([rows], limit, wanted)
        assert kept.num_rows == count


def test_picked_rows_are_found_across_tables() -> None:
    picked = row_stream.picked_rows(numbers(3, 0, 3, 3), np.array([0, 2, 3, 8]))
    assert seen(picked) == [0, 2, 3, 8]
