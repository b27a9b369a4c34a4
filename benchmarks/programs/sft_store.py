"""Conversations of ``chats.jsonl`` as ``datasets`` stores them, and as the project does."""

import json
import sys
from pathlib import Path
from typing import Any

import datasets

from pipeline_lib.chat.normalize import normalize
from pipeline_lib.chat.rows import SourceRows
from pipeline_lib.chat.store import Conversations
from pipeline_lib.storage.cache_options import CacheOptions


def _norm_chats(row: dict[str, Any]) -> list[dict[str, str]]:
    turns: list[dict[str, str]] = row["messages"]
    return turns


def stored(folder: Path) -> Conversations:
    """The conversations in the project's store, in the order of the file."""
    found = normalize(
        {"chats": SourceRows(datasets.load_from_disk(str(folder / "dataset")), "chats")},
        {"chats": _norm_chats},
        CacheOptions(folder / "store"),
        seed=1,
        val_fraction=1e-12,  # practically all of them are for training
    )
    return found.train


def main() -> None:
    folder = Path(sys.argv[1])
    with (folder / "chats.jsonl").open(encoding="utf-8") as lines:
        rows = datasets.Dataset.from_list([json.loads(line) for line in lines])
    rows.save_to_disk(str(folder / "dataset"))
    (folder / "stored.txt").write_text(f"{len(stored(folder)):,} conversations\n")


if __name__ == "__main__":
    main()
