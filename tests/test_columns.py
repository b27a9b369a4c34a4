"""Column contracts: which types serve, and how much of a data set is read."""

import pyarrow as pa
import pytest

from pipeline_lib.columns import check_columns, is_read, is_text, plain_type, read_bytes
from pipeline_lib.errors import ColumnError

TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
COLUMNS = {"text": pa.string(), "messages": TURNS, "flag": pa.struct([("flagged", pa.bool_())])}


def test_a_contract_reads_through_encodings_and_extra_fields() -> None:
    turns = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    more = pa.struct([("id", pa.int64()), ("content", pa.large_string()), ("role", pa.string())])
    found = pa.schema({"t": pa.large_list(more), "d": pa.dictionary(pa.int32(), pa.string())})
    check_columns(found, {"t": turns, "d": pa.string()}, "x")
    with pytest.raises(ColumnError):
        check_columns(found, {"t": pa.list_(pa.string())}, "x")
    with pytest.raises(ColumnError):
        check_columns(pa.schema({"d": pa.null()}), {"d": pa.string()}, "x")
    check_columns(pa.schema({"d": pa.null()}), {"d": pa.string()}, "x", nulls=True)


def test_both_schemas_are_shown() -> None:
    found = pa.schema({"text": pa.string(), "n": pa.int64()})
    with pytest.raises(ColumnError) as caught:
        check_columns(found, {"content": pa.string(), "n": pa.string()}, "data set chat")
    for part in ("chat: `content` is absent, expected string", "`n` is int64", "text: string"):
        assert part in str(caught.value)


def test_text_is_text_in_every_layout() -> None:
    kinds = [pa.string(), pa.large_string(), pa.string_view()]
    assert all(map(is_text, kinds)) and not is_text(pa.binary())
    assert is_text(plain_type(pa.dictionary(pa.int8(), pa.large_string())))
    assert plain_type(pa.int64()) == pa.int64()


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
