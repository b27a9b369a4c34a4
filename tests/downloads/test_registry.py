"""What of a data set is read: leaves of parquet files and bytes of Arrow arrays."""

import pyarrow as pa
import pytest

from pipeline_lib.columns import is_read, read_bytes

TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
COLUMNS = {"text": pa.string(), "messages": TURNS, "flag": pa.struct([("flagged", pa.bool_())])}


@pytest.mark.parametrize(
    ("leaf", "read"),
    [
        ("text", True),
        ("messages.list.element.role", True),
        ("messages.list.item.content", True),
        ("messages.list.element.toxic", False),
        ("messages.list.element.header.role_of", False),
        ("flag.flagged", True),
        ("flag.score", False),
        ("id", False),
    ],
)
def test_of_a_struct_only_the_wanted_fields_are_read(leaf: str, read: bool) -> None:
    assert is_read(leaf, COLUMNS) is read


def test_bytes_are_those_of_the_wanted_fields_wherever_a_slice_begins() -> None:
    turn = {"role": "user", "content": "x" * 100, "toxic": "y" * 900}
    array = pa.array([[turn], [turn, turn], [], [turn]])
    assert read_bytes(array, TURNS) == pytest.approx(4 * (4 + 100 + 8) + 4 * 4, abs=16)
    assert read_bytes(array.slice(1, 2), TURNS) == pytest.approx(2 * 112 + 8, abs=16)
    assert read_bytes(array.slice(2, 1), TURNS) < 16
    assert read_bytes(pa.array(["x" * 50] * 3), pa.string()) == pytest.approx(150, abs=16)


def test_large_lists_and_plain_lists_count_alike() -> None:
    lines = [["a" * 80, "b" * 80], ["c" * 80]]
    kind = pa.list_(pa.string())
    plain, large = (pa.array(lines, to) for to in (kind, pa.large_list(pa.string())))
    assert read_bytes(plain, kind) == pytest.approx(read_bytes(large, kind), abs=16)
