"""Which rows a normalizer sees."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chat_world import CHATS, normalized, numbered_chat, source_rows, turns

from pipeline_lib.chat import rows
from pipeline_lib.chat.rows import PickedRows, open_rows, read_rows
from pipeline_lib.downloads import saved
from pipeline_lib.downloads.registry import DatasetSpec

TREE = source_rows(
    [
        {
            "message_id": i,
            "parent_id": parent,
            "rank": rank,
            "deleted": False,
            "review_result": True,
            "role": "user" if parent is None else "assistant",
            "text": text,
        }
        for i, parent, rank, text in [
            (1, None, None, "q"),
            (2, 1, 1, "worse"),
            (3, 1, 0, "better"),
        ]
    ],
    tree=True,
)


def test_a_row_of_a_tree_source_has_the_worse_answer_beside_the_best(tmp_path: Path) -> None:
    (row,) = PickedRows("one", TREE, 1, -1).block(0, 1)
    assert [m["text"] for m in row["messages"]] == ["q", "better"]
    assert [m["text"] for m in row["worse"]] == ["q", "worse"]


def test_trees_are_found_whatever_the_size_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(PickedRows("one", TREE, 1, -1).block(0, 1))
    monkeypatch.setattr(rows, "_TREE_ROWS", 2)
    assert list(PickedRows("one", TREE, 1, -1).block(0, 1)) == whole


def best_path_turns(row: dict[str, Any]) -> Any:
    return [{"role": m["role"], "content": m["text"]} for m in row["messages"]]


def test_a_row_of_a_tree_source_is_its_best_path(tmp_path: Path) -> None:
    done = normalized(tmp_path, TREE, best_path_turns, val_fraction=1e-9)
    assert list(done.train) == [turns("q", "better")]
    assert done.reports["one"].messages["ranked below the last answer"] == 1


def test_a_limit_is_a_seeded_sample_that_grows(tmp_path: Path) -> None:
    few, more = (normalized(tmp_path, CHATS, limit=n, val_fraction=1e-9) for n in (5, 12))
    assert len(few.train) == 5
    assert len(more.train) == 12
    kept = [str(c) for c in more.train]
    assert all(str(c) in kept for c in few.train)
    assert list(few.train) != [numbered_chat(i) for i in range(5)]


def test_saved_data_sets_are_opened_with_the_columns_of_the_registry(tmp_path: Path) -> None:
    import datasets

    table = pa.table({"text": ["a", "b"], "extra": [1, 2]})
    features = datasets.Features.from_arrow_schema(table.schema)
    columns = {"text": pa.string()}
    saved.save(tmp_path / "one", [table], features, columns=columns, origin={})
    source = DatasetSpec("a/b", "encyclopedic", columns, "free", "none")
    rows = open_rows(tmp_path / "one", source)
    assert rows.data[[1]] == {"text": ["b"]}
    assert not rows.tree


def test_rows_come_in_blocks() -> None:
    picked = PickedRows("one", source_rows([{"n": i} for i in range(5)]), 1, -1)
    blocks = [[row["n"] for row in picked.block(*ends)] for ends in ((0, 3), (3, 5), (5, 5))]
    assert blocks == [[0, 1, 2], [3, 4], []]


@pytest.mark.parametrize("rows", [TREE, CHATS])
def test_a_row_is_found_again_by_its_address_alone(rows: Any) -> None:
    picked = PickedRows("one", rows, 1, -1)
    every = list(picked.block(0, len(picked)))
    addresses = picked.addresses(0, len(picked))
    assert list(read_rows(rows, addresses[::-1])) == every[::-1]
