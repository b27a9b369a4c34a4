"""JSON Lines: the registry's columns with the registry's types, whatever the blocks."""

import gzip
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import ColumnError, SourceError
from pipeline_lib.sources.json_lines import file_blocks, is_lines, is_packed, line_tables

TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
COLUMNS = {"turns": TURNS, "note": pa.string()}
ROWS: list[dict[str, Any]] = [
    {"turns": [{"role": "user", "content": "é\n"}], "note": None},
    {"turns": None, "note": "x"},
    {"turns": [], "note": ""},
]


def lines(rows: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def read(*blocks: bytes) -> list[dict[str, Any]]:
    tables = list(line_tables([("a.jsonl", blocks)], COLUMNS))
    assert all(table.schema == pa.schema(list(COLUMNS.items())) for table in tables)
    return [row for table in tables for row in table.to_pylist()]


@given(st.lists(st.integers(0, len(lines(ROWS))), max_size=5).map(sorted))
def test_rows_do_not_depend_on_where_blocks_end(cuts: list[int]) -> None:
    data = lines(ROWS)
    ends = [0, *cuts, len(data)]
    assert read(*(data[a:b] for a, b in pairwise(ends))) == ROWS


def test_other_columns_and_fields_are_left_out_and_their_order_is_no_matter() -> None:
    row = {"x": {"y": 1}, "note": "n", "turns": [{"content": "c", "z": [1], "role": "user"}]}
    later = {"x": "now a text", "note": None, "turns": []}
    assert read(lines([row, later])) == [
        {"turns": [{"role": "user", "content": "c"}], "note": "n"},
        {"turns": [], "note": None},
    ]


def test_blank_lines_a_mark_at_the_start_and_a_last_line_without_end_are_no_matter() -> None:
    data = b"\xef\xbb\xbf" + lines(ROWS).replace(b"\n", b"\r\n\n")
    assert read(data.rstrip()) == ROWS
    assert read(b"", b"\n") == []


def test_a_column_that_no_row_has_is_refused_in_every_file() -> None:
    good = ("good.jsonl", [lines(ROWS)])
    with pytest.raises(ColumnError, match=r"bad.jsonl: `note` is absent, expected string"):
        list(line_tables([good, ("bad.jsonl", [lines([{"turns": [], "n": 1}])])], COLUMNS))


def test_a_field_inside_a_column_that_no_object_has_is_refused_too() -> None:
    with pytest.raises(ColumnError, match=r"`turns` is list<item: struct<role: string>>"):
        read(lines([{"turns": [{"role": "user", "text": "x"}], "note": ""}]))


@pytest.mark.parametrize(
    "wrong",
    [b'{"turns": "text", "note": ""}', b'{"turns": [], "note": 5}', b'{"turns": [], "note": "a'],
)
def test_what_does_not_fit_is_named_with_its_place(wrong: bytes) -> None:
    with pytest.raises(SourceError, match=r"a.jsonl, in the block of lines that begins at 4: .*"):
        read(lines(ROWS), wrong + b"\n")


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SourceError, match=r"begins at 1: .*UTF8"):
        read(b'{"turns": [], "note": "\xff"}\n')


def test_half_a_surrogate_pair_is_replaced_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    notes = [r"half \ud83d here", r"pair \ud83d\ude00", r"low \ude00", r"text \\ud83d", "\\\\"]
    data = "".join(f'{{"turns": [], "note": "{note}"}}\n' for note in notes).encode()
    assert [row["note"] for row in read(data)] == [
        "half \ufffd here",
        "pair 😀",
        "low \ufffd",
        r"text \ud83d",
        "\\",
    ]
    assert "2 halves of surrogate pairs became U+FFFD" in caplog.text


def test_local_files_are_read_packed_or_not(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(ROWS))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines(ROWS)))
    for name in ("a.jsonl", "a.jsonl.gz"):
        assert b"".join(file_blocks(tmp_path / name)) == lines(ROWS)


@pytest.mark.parametrize(
    ("name", "lines", "packed"),
    [
        ("data/a.jsonl", True, False),
        ("a.ndjson.gz", True, True),
        ("a.json", False, False),
        ("a.gz", False, False),
    ],
)
def test_the_name_tells_json_lines_packed_or_not(name: str, lines: bool, packed: bool) -> None:
    assert (is_lines(name), is_packed(name)) == (lines, packed)
