"""Text out of Parquet: every row once, in bounded batches, every fault with file and row."""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from crashes import flip
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_lib.errors import ColumnError, DamagedFile
from pipeline_lib.shuffling import Row
from pipeline_lib.sources import parquet, row_stream
from pipeline_lib.sources.parquet import BATCH_BYTES, BATCH_ROWS, footer, open_text, parquet_texts

VALUES = ["one", None, "", "vier ü 語", "one"]
ROWS = [None if value is None else value.encode() for value in VALUES]


def write(path: Path, array: Any, group: int = 2, **more: Any) -> Path:
    pq.write_table(pa.table({"n": range(len(array)), "text": array}), path, group, **more)
    return path


def read(path: Path, first: int = 0) -> list[Row]:
    """All rows from ``first`` on, after checking that the batches follow each other."""
    rows: list[Row] = []
    for start, batch in parquet_texts(path, "text", first):
        assert start == first + len(rows) and batch
        rows += batch
    return rows


TYPES = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "large dictionary": pa.dictionary(pa.int8(), pa.large_string()),
}


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_every_type_of_text_reads_alike(tmp_path: Path, kind: pa.DataType) -> None:
    path = write(tmp_path / "a.parquet", pa.array(VALUES, pa.string()).cast(kind))
    assert read(path) == ROWS


def test_a_column_without_a_type_is_all_nulls(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.parquet", pa.nulls(3))) == [None] * 3


@pytest.mark.parametrize("array", [pa.array([], pa.string()), pa.array([], pa.null())])
def test_a_file_without_rows_gives_none(tmp_path: Path, array: pa.Array) -> None:
    assert read(write(tmp_path / "a.parquet", array)) == []


def test_a_file_without_row_groups_gives_none(tmp_path: Path) -> None:
    with pq.ParquetWriter(tmp_path / "a.parquet", pa.schema({"text": pa.string()})):
        pass
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups == 0
    assert read(tmp_path / "a.parquet") == []


def test_empty_row_groups_between_others_are_stepped_over(tmp_path: Path) -> None:
    schema = pa.schema({"text": pa.string()})
    with pq.ParquetWriter(tmp_path / "a.parquet", schema) as writer:
        for part in ([], ["a", "b"], [], ["c"], []):
            writer.write_table(pa.table({"text": pa.array(part, pa.string())}))
    assert [read(tmp_path / "a.parquet", first) for first in (0, 1, 2, 3)] == [
        [b"a", b"b", b"c"], [b"b", b"c"], [b"c"], [],
    ]  # fmt: skip


@given(
    values=st.lists(st.none() | st.text(max_size=4), max_size=12),
    group=st.integers(1, 5),
    first=st.integers(0, 13),
)
@settings(max_examples=60)
def test_reading_can_begin_at_any_row(
    tmp_path_factory: pytest.TempPathFactory,
    values: Sequence[str | None],
    group: int,
    first: int,
) -> None:
    path = write(tmp_path_factory.mktemp("p") / "a.parquet", pa.array(values, pa.string()), group)
    expected = [None if value is None else value.encode() for value in values]
    assert read(path, first) == expected[first:]


def test_a_nested_column_of_another_name_does_not_disturb(tmp_path: Path) -> None:
    table = pa.table(
        {"meta": [{"text": 1, "id": 2}] * 3, "text": ["a", "b", "c"], "text.raw": ["x", "y", "z"]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == [b"a", b"b", b"c"]
    assert [rows for _, rows in parquet_texts(tmp_path / "a.parquet", "text.raw")] == [
        [b"x", b"y", b"z"]
    ]


@pytest.mark.parametrize("encoding", ["PLAIN", "RLE_DICTIONARY", "DELTA_BYTE_ARRAY"])
def test_every_encoding_reads_alike(tmp_path: Path, encoding: str) -> None:
    dictionary = encoding == "RLE_DICTIONARY"
    plain = None if dictionary else {"text": encoding}
    path = write(
        tmp_path / "a.parquet", pa.array(VALUES, pa.string()), 5,
        use_dictionary=dictionary, column_encoding=plain,
    )  # fmt: skip
    assert read(path) == ROWS


def test_a_column_of_numbers_is_refused_with_the_text_columns_there_are(tmp_path: Path) -> None:
    table = pa.table({"text": [1, 2], "body": ["a", "b"], "title": ["c", "d"]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(
        ColumnError, match=r"a\.parquet: column `text` is int64, not text; .*: body, title; choose"
    ):
        open_text(tmp_path / "a.parquet", "text")


@pytest.mark.parametrize("array", [pa.array([b"x"]), pa.array([["x"]]), pa.array([{"text": "x"}])])
def test_bytes_lists_and_structs_are_not_text(tmp_path: Path, array: pa.Array) -> None:
    with pytest.raises(ColumnError, match="not text"):
        read(write(tmp_path / "a.parquet", array))


def test_a_missing_column_is_refused_with_the_text_columns_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.array(["x"]))
    with pytest.raises(
        ColumnError, match=r"0 columns are named `body`, need one; .*: text; choose"
    ):
        open_text(path, "body")


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ColumnError, match="2 columns are named `text`, need one"):
        open_text(tmp_path / "a.parquet", "text")


@pytest.mark.parametrize("share", [0, 5, 60, 99])
def test_a_file_cut_off_before_its_footer_is_named(tmp_path: Path, share: int) -> None:
    path = write(tmp_path / "a.parquet", pa.array(VALUES * 100, pa.string()))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * share // 100])
    with pytest.raises(DamagedFile, match=r"a\.parquet \([\d,]+ bytes\) does not end in a Parquet"):
        footer(path)
    with pytest.raises(DamagedFile, match=r"a\.parquet can not be read as Parquet"):
        read(path)


@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_what_only_bears_the_name_of_a_file_is_named_and_not_waited_for(
    tmp_path: Path, what: str
) -> None:
    path = tmp_path / "a.parquet"
    if what == "link":
        path.symlink_to("nowhere")
    elif what == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(DamagedFile, match=r"a\.parquet is named like a Parquet file but is none"):
        footer(path)


def test_a_footer_digest_tells_files_of_one_size_apart(tmp_path: Path) -> None:
    one = write(tmp_path / "a.parquet", pa.array(["aaaa"]))
    two = write(tmp_path / "b.parquet", pa.array(["bbbb"]))
    assert footer(one).size == footer(two).size == one.stat().st_size
    assert footer(one).sha256 != footer(two).sha256
    assert footer(one) == footer(write(tmp_path / "c.parquet", pa.array(["aaaa"])))


def test_text_that_is_not_utf8_is_named_by_file_and_row(tmp_path: Path) -> None:
    values = [b"good"] * 7 + [b"caf\xe9 au lait"] + [b"good"] * 5
    array = pa.array(values, pa.binary()).view(pa.string())
    path = write(tmp_path / "a.parquet", array, 4)
    with pytest.raises(DamagedFile, match=r"a\.parquet, row 7: text is not UTF-8 .*repair the row"):
        read(path)
    assert read(path, 8) == [b"good"] * 5


def test_a_surrogate_written_as_utf8_is_no_utf8(tmp_path: Path) -> None:
    array = pa.array([b"\xed\xa0\x80"], pa.binary()).view(pa.string())
    with pytest.raises(DamagedFile, match="row 0: text is not UTF-8"):
        read(write(tmp_path / "a.parquet", array))


def test_a_damaged_page_is_named_by_file_and_row_group(tmp_path: Path) -> None:
    words = pa.array([f"{n} {n * n} {n**3}" for n in range(4_000)])
    path = write(tmp_path / "a.parquet", words, 1_000, compression="zstd")
    chunk = pq.read_metadata(path).row_group(2).column(1)
    for position in range(40, 60):
        flip(path, chunk.data_page_offset + position)
    with pytest.raises(
        DamagedFile, match=r"a\.parquet: row group 2 can not be read near row 2,?000"
    ):
        read(path)


def test_a_tiny_file_that_expands_a_thousandfold_is_read_in_bounded_batches(
    tmp_path: Path,
) -> None:
    size, count = 1 << 20, 150
    path = write(tmp_path / "a.parquet", pa.array(["x" * size] * count), count)
    assert path.stat().st_size < size * count // 1_000
    sizes = [len(rows) for _, rows in parquet_texts(path, "text")]
    assert sum(sizes) == count and max(sizes) * size <= BATCH_BYTES


def test_one_long_value_among_many_short_ones_bounds_the_batch(tmp_path: Path) -> None:
    long, index = "y" * (8 << 20), pa.array([0] * 90 + [1] * 40, pa.int32())
    array = pa.DictionaryArray.from_arrays(index, pa.array(["x", long]))
    path = write(tmp_path / "a.parquet", array, 1_000)
    batches = [sum(map(len, rows)) for _, rows in parquet_texts(path, "text")]
    assert max(batches) <= BATCH_BYTES and sum(batches) == 90 + 40 * len(long)


@pytest.mark.parametrize("long_rows", [40, 400])
def test_a_long_value_that_many_rows_share_never_fills_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long_rows: int
) -> None:
    """The mean row of the file is tiny; a batch is bounded before it is decoded, not after."""
    monkeypatch.setattr(parquet, "BATCH_BYTES", 1 << 20)
    index = pa.array([0] * 5_000 + [1] * long_rows, pa.int32())
    array = pa.DictionaryArray.from_arrays(index, pa.array(["x", "y" * 200_000]))
    path = write(tmp_path / "a.parquet", array.cast(pa.string()), 10_000)
    pool, default = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        assert sum(len(rows) for _, rows in parquet_texts(path, "text")) == len(array)
    finally:
        pa.set_memory_pool(default)
    assert 0 < pool.max_memory() < 6 << 20  # the long rows of one full batch: 8 MB and more


def test_short_rows_are_read_in_full_batches(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.array(["same"] * 3_000), 3_000)
    assert [len(rows) for _, rows in parquet_texts(path, "text")] == [BATCH_ROWS] * 5 + [440]


def test_one_document_larger_than_a_batch_comes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "BATCH_BYTES", 1_000)
    path = write(tmp_path / "a.parquet", pa.array(["a" * 5_000, "b" * 5_000]), 2)
    assert [(start, len(rows)) for start, rows in parquet_texts(path, "text")] == [(0, 1), (1, 1)]


KINDS = [pa.string(), pa.large_string(), pa.string_view()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("first", [0, 1, 120, 139, 140, 141, 299])
def test_few_long_rows_among_many_short_ones_come_in_bounded_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, first: int
) -> None:
    monkeypatch.setattr(parquet, "BATCH_BYTES", 10_000)
    values = [*(f"{n}" for n in range(120)), None, *(c * 3_000 for c in "abcdefgh"), "i" * 20_000]
    values += [None, *(f"{n}" for n in range(169))]
    path = write(tmp_path / "a.parquet", pa.array(values, pa.string()).cast(kind), 300)
    expected = [None if value is None else value.encode() for value in values]
    assert read(path, first) == expected[first:]
    for _, rows in parquet_texts(path, "text", first):
        assert sum(len(row or b"") for row in rows) <= 10_000 or len(rows) == 1


@pytest.mark.parametrize("early", [True, False])
def test_the_file_is_closed_at_the_end_and_on_early_exit(tmp_path: Path, early: bool) -> None:
    path = write(tmp_path / "a.parquet", pa.array(VALUES, pa.string()))
    batches = parquet_texts(path, "text")
    if early:
        next(batches)
        assert opened(path)
        batches.close()
    else:
        list(batches)
    assert not opened(path)


def opened(path: Path) -> bool:
    """Whether this process has the file open (only Linux shows it)."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("open files are listed under /proc only")
    links = [entry for entry in folder.iterdir() if entry.is_symlink()]
    return any(str(path) == str(link.readlink()) for link in links if os.path.lexists(link))


def encrypted(path: Path, column: str) -> Path:
    """A file of ``text`` and ``email`` in which one column is encrypted and the footer is not."""
    config = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": [column]}, plaintext_footer=True, double_wrapping=False,
        data_key_length_bits=128,
    )  # fmt: skip
    keys = {"f": "0123456789012345", "c": "1234567890123450"}

    class Keys(encryption.KmsClient):  # type: ignore[misc]  # pyarrow.parquet.encryption is untyped
        def wrap_key(self, key: bytes, master: str) -> bytes:
            return base64.b64encode(keys[master].encode() + key)

    factory = encryption.CryptoFactory(lambda config: Keys())
    made = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    table = pa.table({"email": ["a@example.org"] * 9, "text": [f"open {n}" for n in range(9)]})
    with pq.ParquetWriter(path, table.schema, encryption_properties=made) as writer:
        writer.write_table(table)
    return path


def test_an_encrypted_column_that_is_not_read_does_no_harm(tmp_path: Path) -> None:
    path = encrypted(tmp_path / "a.parquet", "email")
    rows = [row for _, part in parquet_texts(path, "text") for row in part]
    assert rows == [f"open {n}".encode() for n in range(9)]


def test_an_encrypted_text_column_is_named_with_its_file(tmp_path: Path) -> None:
    path = encrypted(tmp_path / "a.parquet", "text")
    with pytest.raises(ColumnError, match=r"a\.parquet: column `text` is encrypted \("):
        parquet.open_text(path, "text")


def test_a_file_with_encrypted_columns_is_refused_where_all_are_read(tmp_path: Path) -> None:
    path = encrypted(tmp_path / "a.parquet", "email")
    columns = {"text": pa.string()}
    with pytest.raises(ColumnError, match=r"a\.parquet has encrypted columns"):
        row_stream.parquet_size(path, columns)
    with pytest.raises(ColumnError, match=r"a\.parquet has encrypted columns"):
        row_stream.parquet_schema([path], columns)


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_row_group_that_ends_too_early_is_damage_and_not_the_end(
    tmp_path: Path, dictionary: bool
) -> None:
    """Arrow gives fewer rows and no error where a file was cut after it was opened."""
    path = tmp_path / "a.parquet"
    values = pa.array([f"text {n}" for n in range(64)])
    write(path, values, 16, compression="none", use_dictionary=dictionary)
    reading = parquet_texts(path, "text")
    assert len(next(reading)[1]) == 16
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DamagedFile, match=r"a\.parquet: .*fetch the file again"):
        list(reading)
