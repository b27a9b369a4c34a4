"""Conversations cut from a corpus, saved as a download saves them, and stored by the project."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from internals import save

from pipeline_lib import CacheOptions, Conversations, DatasetSpec, normalize, open_rows
from pipeline_lib.normalizers import Turns, read_turns

TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
SPEC = DatasetSpec("made/here", "dialogue", {"messages": TURNS}, "none", "none")
NAME = "conversations"
TABLE_ROWS = 1_000


def tables(texts: Iterable[str], count: int, words: int = 120) -> Iterator[pa.Table]:
    """Conversations of two, four or six turns, which begin with the conversation's number and have
    10 to ``words`` words."""
    found = _pieces(texts, words)
    for start in range(0, count, TABLE_ROWS):
        numbers = range(start, min(start + TABLE_ROWS, count))
        made = [_conversation(found, number) for number in numbers]
        yield pa.table({"messages": pa.array(made, TURNS)})


def _conversation(found: Iterator[str], number: int) -> list[dict[str, str]]:
    roles = ["user", "assistant"] * (1 + number % 3)
    return [{"role": role, "content": f"{number:,}: {next(found)}"} for role in roles]


def _pieces(texts: Iterable[str], words: int) -> Iterator[str]:
    """The texts in stripped pieces, cut where the words are very long."""
    number = 0
    for text in texts:
        left = text.split(" ")
        while left:
            size = 10 + (number * 53) % (words - 9)
            piece = " ".join(left[:size])[: 10 * words].strip()
            left, number = left[size:], number + 1
            if piece:
                yield piece


def save_rows(folder: Path, texts: Iterable[str], count: int) -> None:
    """Save conversations as the data set ``folder/conversations``."""
    import datasets

    features = datasets.Features.from_arrow_schema(pa.schema(SPEC.columns.items()))
    rows = tables(texts, count)
    save(folder / NAME, rows, features, columns=SPEC.columns, origin={})


def _norm_conversations(row: dict[str, list[dict[str, str]]]) -> Turns:
    return read_turns(row["messages"])


def stored(folder: Path) -> Conversations:
    """The saved conversations in the order of their rows, normalised or opened."""
    sources, normalizers = {NAME: open_rows(folder / NAME, SPEC)}, {NAME: _norm_conversations}
    cache = CacheOptions(folder / "cache")
    return normalize(sources, normalizers, cache, seed=1, val_fraction=1e-12).train
