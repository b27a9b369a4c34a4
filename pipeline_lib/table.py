"""A small table for display: named columns and rows, shown as text or HTML."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True, repr=False)
class Table:
    """Rows under named columns; ``str`` gives aligned text, a notebook shows HTML."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __str__(self) -> str:
        texts = [self.columns, *(tuple(map(_text, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        right = [_is_number(self.column(name)) for name in self.columns]
        lines = [_line(text, widths, right) for text in texts]
        return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        lines = [
            "".join(
                f'<td style="text-align:left">{html.escape(_text(cell))}</td>'
                if isinstance(cell, str)
                else f"<td>{_text(cell)}</td>"
                for cell in row
            )
            for row in self.rows
        ]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table><tr>{head}</tr>{body}</table>"

    def column(self, name: str) -> list[Cell]:
        """The cells of one column; ``ValueError`` if there is no such column."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def _is_number(cells: Sequence[Cell]) -> bool:
    return any(isinstance(cell, int | float) for cell in cells)


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.3g}" if abs(cell) < 100 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = zip(texts, widths, right, strict=True)
    return "  ".join(t.rjust(w) if r else t.ljust(w) for t, w, r in cells).rstrip()
