"""What a registered data set is: where it lives, what is read of it, under which terms.

The list itself is ``DATASETS`` in ``download_data.py``; nothing here names a data set. A
source's ``columns`` are a contract: the columns its normalizer reads, with Arrow types.
They are compared with what the Hub delivers and with what lies on disk, so a renamed or
retyped column stops that source instead of emptying it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from pipeline_lib.errors import ColumnError

Role = Literal["dialogue", "reasoning", "encyclopedic", "preference"]
Columns = Mapping[str, pa.DataType]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
ROLES = ("dialogue", "reasoning", "encyclopedic", "preference")


@dataclass(frozen=True)
class Source:
    """One data set of the Hub and how it is fetched.

    ``revision`` is a branch, tag or commit; it is resolved to a commit before anything is
    fetched. ``parquet`` names the branch with automatically converted files to read instead
    of the originals. Of JSON Lines only ``columns`` are kept. ``streaming`` sources are read in
    stored order, and only as far as a limit needs. ``max_bytes`` bounds what is kept, in Arrow
    bytes. ``group`` names the column that holds together the rows of one message tree.
    ``disabled`` says why a source is not fetched unless it is asked for by name.
    """

    path: str
    role: Role
    columns: Columns
    licence: str
    citation: str
    config: str | None = None
    splits: tuple[str, ...] = ("train",)
    revision: str = "main"
    streaming: bool = False
    parquet: str | None = None
    max_bytes: int | None = None
    gated: bool = False
    group: str | None = None
    disabled: str = ""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"role of {self.path} is {self.role!r}; expected one of {ROLES}")
        if not self.columns or not self.splits:
            raise ValueError(f"{self.path} needs at least one column and one split")
        if self.max_bytes is not None and self.max_bytes <= 0:
            raise ValueError(f"max_bytes of {self.path} is {self.max_bytes}; expected > 0")
        if self.parquet is not None and self.config is None:
            raise ValueError(f"{self.path} is read from {self.parquet}, which needs a config name")

    @property
    def enabled(self) -> bool:
        """Whether it is fetched when no names are given."""
        return not self.disabled


def check_name(name: str) -> str:
    """The name of a source, which is also a folder name: ``ValueError`` if it can not be one."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} can not name a data set: use a-z, 0-9, '_' and '-'")
    return name


def choose(datasets: Mapping[str, Source], names: Iterable[str]) -> dict[str, Source]:
    """The named sources, each once, in the order given; without names all enabled ones.

    ``ValueError`` lists the known names if one is unknown.
    """
    wanted = list(dict.fromkeys(names)) or [n for n, source in datasets.items() if source.enabled]
    unknown = [name for name in wanted if name not in datasets]
    if unknown:
        raise ValueError(
            f"unknown data set {', '.join(map(repr, unknown))}; known: {', '.join(datasets)}"
        )
    return {name: datasets[name] for name in wanted}


def check_columns(found: pa.Schema, wanted: Columns, where: str, *, nulls: bool = False) -> None:
    """``ColumnError`` with both schemas unless every wanted column is there with its type.

    Widths and encodings that give equal values are equal here: ``large_string`` and
    dictionary-encoded strings serve as ``string``. Inside a struct only the wanted fields
    count. With ``nulls``, a column without any value may lack its type.
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
    """The type of the same values without dictionary encoding."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_read(leaf: str, columns: Columns) -> bool:
    """Whether a leaf of a parquet file, by its path, is among what ``columns`` names.

    Of a struct only the wanted fields are, under whatever lists it lies.
    """
    top, *inner = leaf.split(".")
    fields = _fields(columns[top]) if top in columns else set()
    return top in columns and (not fields or inner[-1] in fields)


def read_bytes(array: pa.Array, kind: pa.DataType) -> int:
    """Bytes of an Arrow array, of its structs only the fields of ``kind``; reads no values."""
    if _is_list(kind) and _is_list(array.type):
        first, last = (array.offsets[place].as_py() for place in (0, -1))
        width = 4 if pa.types.is_list(array.type) else 8
        inside = array.values.slice(first, last - first)
        return width * len(array) + read_bytes(inside, kind.value_type)
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return sum(read_bytes(array.field(field.name), field.type) for field in kind)
    return int(array.nbytes)


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
    return _is_text(found) if _is_text(wanted) else bool(found == wanted)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
