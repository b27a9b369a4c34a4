"""Column contracts: the columns of a table that are read, with their Arrow types.

The columns of a source and of its saved copy are compared with the contract. So a renamed or
retyped column is an error; it does not silently become a column of nulls.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from pipeline_lib.errors import ColumnError

Columns = Mapping[str, pa.DataType]
"""Column name -> Arrow type."""


def check_columns(found: pa.Schema, wanted: Columns, where: str, *, nulls: bool = False) -> None:
    """``ColumnError`` with both schemas unless every wanted column is there with its type.

    Types of equal values are equal here: ``large_string`` and dictionary-encoded strings serve as
    ``string``. Inside a struct only the wanted fields are compared. With ``nulls``, a column of
    type null, which holds no value, serves as any type.
    """
    faults = [
        f"`{name}` is {_shown(found, name)}, expected {kind}"
        for name, kind in wanted.items()
        if name not in found.names or not _serves(found.field(name).type, kind, nulls)
    ]
    if faults:
        expected = ", ".join(f"{name}: {kind}" for name, kind in wanted.items())
        there = ", ".join(f"{field.name}: {field.type}" for field in found)
        raise ColumnError(
            f"{where}: {'; '.join(faults)}. Expected columns: {expected}. Found columns: {there}. "
            "The data set changed: pin an earlier revision in download_data.py, or correct the "
            "columns there and the normalizer that reads them"
        )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without dictionary encoding."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are texts, in any of Arrow's layouts but dictionaries."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_read(leaf: str, columns: Columns) -> bool:
    """Whether ``columns`` names the innermost Parquet column with this path.

    Of a struct only the wanted fields are read, also inside lists.
    """
    top, *inner = leaf.split(".")
    fields = _fields(columns[top]) if top in columns else set()
    return top in columns and (not fields or inner[-1] in fields)


def read_bytes(array: pa.Array, kind: pa.DataType) -> int:
    """Bytes of an Arrow array, counting only the struct fields of ``kind``; no value is read."""
    if _is_list(kind) and _is_list(array.type):
        first, last = (array.offsets[place].as_py() for place in (0, -1))
        width = 4 if pa.types.is_list(array.type) else 8
        inside = array.values.slice(first, last - first)
        return width * len(array) + read_bytes(inside, kind.value_type)
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return sum(read_bytes(array.field(field.name), field.type) for field in kind)
    return int(array.nbytes)


def text_bytes(array: pa.Array, kind: pa.DataType) -> int:
    """UTF-8 bytes of the texts in an Arrow array, counting only the struct fields of ``kind``; a
    value that is no text counts with its Arrow bytes. No value is read."""
    if _is_list(kind) and _is_list(array.type):
        first, last = (array.offsets[place].as_py() for place in (0, -1))
        return text_bytes(array.values.slice(first, last - first), kind.value_type)
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return sum(text_bytes(array.field(field.name), field.type) for field in kind)
    if not is_text(plain_type(array.type)):
        return int(array.nbytes)
    texts = array.cast(pa.large_string())
    ends = np.frombuffer(texts.buffers()[1], np.int64)
    return int(ends[texts.offset + len(texts)] - ends[texts.offset])


def _fields(kind: pa.DataType) -> set[str]:
    """Names of the innermost struct fields of a type; empty if it has none."""
    if _is_list(kind):
        return _fields(kind.value_type)
    if pa.types.is_struct(kind):
        return {name for field in kind for name in _fields(field.type) or {field.name}}
    return set()


def _shown(schema: pa.Schema, name: str) -> str:
    return str(schema.field(name).type) if name in schema.names else "absent"


def _serves(found: pa.DataType, wanted: pa.DataType, nulls: bool) -> bool:
    found = plain_type(found)
    if pa.types.is_null(found):
        return nulls or pa.types.is_null(wanted)
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(found) and all(
            found.get_field_index(field.name) >= 0
            and _serves(found.field(field.name).type, field.type, nulls)
            for field in wanted
        )
    if _is_list(wanted):
        return _is_list(found) and _serves(found.value_type, wanted.value_type, nulls)
    return is_text(found) if is_text(wanted) else bool(found == wanted)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
