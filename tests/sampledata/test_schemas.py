"""Schemas are written as rows look, and give Arrow's types."""

import pyarrow as pa

from download_data import DATASETS
from pipeline_lib.columns import check_columns
from pipeline_lib.sampledata.schemas import CATEGORIES, EARLY, SCHEMAS, SLASHED, UNDERSCORED


def test_every_registered_source_has_a_schema_with_its_columns() -> None:
    assert set(SCHEMAS) == set(DATASETS)
    for name, known in DATASETS.items():
        check_columns(SCHEMAS[name], known.columns, name)


def test_structs_lists_and_several_fields_of_one_type() -> None:
    turns = pa.list_(pa.struct([("from", pa.string()), ("value", pa.string())]))
    assert SCHEMAS["openthoughts"] == pa.schema([("system", pa.string()), ("conversations", turns)])
    numbers = pa.list_(pa.int64())
    columns = [("dialog", pa.list_(pa.string())), ("act", numbers), ("emotion", numbers)]
    assert SCHEMAS["dailydialog"] == pa.schema(columns)


def test_each_moderation_service_had_its_own_spelling() -> None:
    assert [len(names) for names in (CATEGORIES, UNDERSCORED, SLASHED, EARLY)] == [18, 11, 11, 7]
    assert set(EARLY) < set(SLASHED) and set(UNDERSCORED) & set(SLASHED) == {
        *("harassment", "hate", "sexual", "violence")
    }
