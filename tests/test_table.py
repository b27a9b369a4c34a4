"""The small table: what it looks like and what it gives back."""

import pytest

from pipeline_lib.table import Table

TABLE = Table(("name", "rows", "share"), (("a", 1_234_567, 0.5), ("long name", 0, None)))


def test_columns_are_aligned_and_numbers_stand_to_the_right() -> None:
    assert str(TABLE).splitlines() == [
        "name            rows  share",
        "---------  ---------  -----",
        "a          1,234,567    0.5",
        "long name          0      -",
    ]


def test_a_column_is_found_by_its_name() -> None:
    assert TABLE.column("rows") == [1_234_567, 0]
    with pytest.raises(ValueError, match="not in tuple"):
        TABLE.column("other")


def test_a_table_without_rows_shows_its_columns() -> None:
    assert str(Table(("a", "bc"), ())).splitlines() == ["a  bc", "-  --"]
