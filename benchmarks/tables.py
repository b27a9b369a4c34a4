"""Small markdown tables, medians and spreads."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table at once, so that a long benchmark can be watched."""
    cells = [list(columns), *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    lines = [" | ".join(map(str.ljust, row, widths)) for row in cells]
    rule = " | ".join("-" * width for width in widths)
    print(f"\n### {title}\n", *(f"| {line} |" for line in [lines[0], rule, *lines[1:]]), sep="\n")
    print(flush=True)


def median(items: Iterable[Item], value: Callable[[Item], float]) -> float:
    """The median of a value over some runs."""
    return statistics.median(map(value, items))


def spread(items: Sequence[Item], value: Callable[[Item], float], form: str = ".2f") -> str:
    """The median of a value, with the smallest and the largest."""
    values = [value(item) for item in items]
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def megabytes(size: float) -> str:
    """Bytes in millions."""
    return f"{size / 1e6:,.0f}"
