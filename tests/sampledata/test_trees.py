"""Message trees of the sample: faults, ranks, interleaved rows."""

import itertools
from typing import Any

from sample_rows import rows


def test_oasst2_has_deleted_rejected_and_orphaned_messages_in_interleaved_trees() -> None:
    found = rows("oasst2")
    known = {row["message_id"] for row in found}
    assert any(row["deleted"] for row in found)
    assert any(row["review_result"] is False for row in found)
    assert any(row["parent_id"] and row["parent_id"] not in known for row in found)
    assert any(
        row["parent_id"] is None and row["message_tree_id"] == row["message_id"] for row in found
    )
    trees = [key for key, _ in itertools.groupby(row["message_tree_id"] for row in found)]
    assert len(trees) > len(set(trees))
    assert {row["rank"] for row in found} >= {None, 0, 1, 2}


def test_oasst2_has_ranked_siblings_some_of_them_with_equal_texts() -> None:
    answers: dict[Any, list[Any]] = {}
    for row in rows("oasst2"):
        if row["role"] == "assistant":
            answers.setdefault(row["parent_id"], []).append((row["rank"], row["text"]))
    ranked = [dict(found) for found in answers.values() if len({rank for rank, _ in found}) > 1]
    assert len(ranked) > 300
    assert any(found.get(0) and found.get(0) == found.get(1) for found in ranked)
