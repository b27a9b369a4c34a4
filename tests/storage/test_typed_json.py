"""Typed JSON files: what is written is read back, what does not fit is named."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pytest

from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage import atomic
from pipeline_lib.storage.typed_json import as_typed, load_typed, save_typed


class Shard(TypedDict):
    file: str
    tokens: int
    sha256: NotRequired[str]


@dataclass(frozen=True)
class State:
    name: str
    shards: tuple[Shard, ...]
    counts: dict[str, int]


STATE = State("one", ({"file": "a", "tokens": 3}, {"file": "b", "tokens": 4}), {"x": 1})


def test_a_value_comes_back_as_it_was_written(tmp_path: Path) -> None:
    save_typed(tmp_path / "state.json", STATE)
    assert load_typed(tmp_path / "state.json", State) == STATE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 5}, r"Expected `str`, got `int` - at `\$\.name`"),
        ({"counts": {"x": "1"}}, r"Expected `int`, got `str` - at `\$\.counts\[...\]`"),
        ({"shards": [{"file": "a"}]}, r"missing required field `tokens` - at `\$\.shards\[0\]`"),
        ({"shards": [{"file": "a", "tokens": True}]}, r"tokens`"),
    ],
)
def test_what_does_not_fit_is_named_with_file_and_field(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    save_typed(tmp_path / "state.json", STATE)
    fields = atomic.load_json(tmp_path / "state.json")
    atomic.save_json(tmp_path / "state.json", fields | change)
    with pytest.raises(DamagedFile, match=f"state.json does not hold .*{said}"):
        load_typed(tmp_path / "state.json", State)


def test_a_field_that_is_missing_is_named() -> None:
    with pytest.raises(DamagedFile, match=r"here does not hold .*missing required field `counts`"):
        as_typed({"name": "one", "shards": []}, State, "here")


def test_fields_that_are_not_known_are_ignored() -> None:
    more = {"name": "one", "shards": [], "counts": {}, "later": 1}
    assert as_typed(more, State, "here") == State("one", (), {})
