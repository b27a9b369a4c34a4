"""Markdown tables, and how figures are written in them."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median as median

Row = Mapping[str, str]
"""Cells by the titles of their columns."""


def show(title: str, rows: Sequence[Row]) -> None:
    """Print a table at once, so that a long benchmark can be watched."""
    columns = list(rows[0])
    cells = [columns, *([row[column] for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [" | ".join(map(str.ljust, line, widths)) for line in cells]
    rule = " | ".join("-" * width for width in widths)
    print(f"\n### {title}\n", *(f"| {line} |" for line in [lines[0], rule, *lines[1:]]), sep="\n")
    print(flush=True)


def spread(values: Iterable[float], form: str = ".2f") -> str:
    """Median, smallest and largest: ``2.00 (1.50-3.00)``."""
    figures = sorted(values)
    return f"{median(figures):{form}} ({figures[0]:{form}}-{figures[-1]:{form}})"


def megabytes(size: float) -> str:
    """Bytes in millions."""
    return f"{size / 1e6:,.0f}"


def change(figure: float, base: float, form: str = "+.1f") -> str:
    """By how much a figure is above another one, in per cent."""
    return f"{(figure / base - 1) * 100:{form}} %"
