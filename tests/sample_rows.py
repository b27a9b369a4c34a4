"""The rows of the offline sample, made once a process."""

from functools import cache
from typing import Any

from pipeline_lib.sampledata import make


@cache
def rows(name: str) -> list[dict[str, Any]]:
    """All rows of a sampled data set."""
    return list(make.rows_of(name))


def column(name: str, key: str, turns: str = "conversation") -> list[list[Any]]:
    """One field of every turn, row by row."""
    return [[turn[key] for turn in row[turns]] for row in rows(name)]
