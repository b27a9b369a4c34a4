"""The bounds of a run, lane by lane: what they let expect, and what ended it. Said in words.

A bound on the run is dealt to the lanes before anything is read, so a lane whose files hold less
than its part leaves the rest unvisited. Both the forecast and the last line say so.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict

from pipeline_lib.corpus.recipe import DEFAULT_MAX_DOCUMENTS, Recipe, lane_bound

EndedBy = Literal["max_documents", "train_tokens", "source"]
_SHOWN = 3


class LaneEnd(TypedDict):
    """Where a lane ended. ``rows_bound`` and ``train_tokens_bound`` are its part of the bound of
    the run, None where there is none. ``ended_by``: the bound, or ``"source"``: its files had no
    further row."""

    rows_visited: int
    train_tokens: int
    rows_bound: int | None
    train_tokens_bound: int | None
    ended_by: EndedBy


def lane_end(recipe: Recipe, lane: int, rows: int, train_tokens: int, *, crossed: bool) -> LaneEnd:
    """The end of a lane that visited so many rows and wrote so many tokens of the training split;
    ``crossed`` says whether it crossed its part of the token bound."""
    rows_bound = lane_bound(recipe.row_bound, lane, recipe.lanes)
    ended: EndedBy = "train_tokens" if crossed else "source"
    return LaneEnd(
        rows_visited=rows,
        train_tokens=train_tokens,
        rows_bound=rows_bound,
        train_tokens_bound=lane_bound(recipe.train_tokens, lane, recipe.lanes),
        ended_by="max_documents" if rows_bound is not None and rows >= rows_bound else ended,
    )


def rows_to_visit(recipe: Recipe, rows: Sequence[int | None]) -> int | None:
    """The most rows that a run can visit, from the rows in the files of each lane (None: unknown);
    None if neither a bound nor the source tells."""
    found = [least(_part(recipe, lane), count) for lane, count in enumerate(rows)]
    known = [count for count in found if count is not None]
    return sum(known) if len(known) == len(found) else None


def forecast(recipe: Recipe, rows: Sequence[int | None]) -> str:
    """One phrase: what a run will visit. ``rows``: in the files of each lane, None if unknown."""
    known = [count for count in rows if count is not None]
    total = sum(known) if len(known) == len(rows) else None
    there = "" if total is None else f" ({total:,} rows)"
    if recipe.train_tokens is not None:
        return f"goes on to {recipe.train_tokens:,} train tokens or the end of the source{there}"
    bound = recipe.row_bound
    if bound is None or (total is not None and rows_to_visit(recipe, rows) == total):
        return f"visits all rows of the source{there}"
    if total is None:
        return f"visits at most {bound:,} rows of the source{_note(bound)}"
    if short := _short_of_rows(recipe, known):
        return f"visits {rows_to_visit(recipe, rows):,} of the {bound:,} rows asked for: {short}"
    return f"visits {bound:,} of {total:,} rows{_note(bound)}"


def ending(recipe: Recipe, lanes: Sequence[LaneEnd], *, given: bool = False) -> str:
    """One phrase: what ended a run. ``given``: the bound on rows was given, so that it is named as
    an option even where it equals the default."""
    by_source = [lane["ended_by"] == "source" for lane in lanes]
    if all(by_source):
        return f"the source ended it{_of_bound(recipe, lanes)}"
    if any(by_source):
        return _uneven(recipe, lanes)
    if recipe.train_tokens is not None:
        return f"--train-tokens {recipe.train_tokens:,} ended it"
    bound = recipe.row_bound or 0
    if bound == DEFAULT_MAX_DOCUMENTS and not given:
        return f"the default bound of {bound:,} rows ended it (--all-documents visits all)"
    return f"--max-documents {bound:,} ended it"


def least(*bounds: int | None) -> int | None:
    """The smallest bound that there is."""
    return min((bound for bound in bounds if bound is not None), default=None)


def _part(recipe: Recipe, lane: int) -> int | None:
    return lane_bound(recipe.row_bound, lane, recipe.lanes)


def _note(bound: int) -> str:
    if bound != DEFAULT_MAX_DOCUMENTS:
        return ""
    return ' (the default bound; --all-documents, or max_documents="all", visits all)'


def _of_bound(recipe: Recipe, lanes: Sequence[LaneEnd]) -> str:
    if recipe.train_tokens is not None:
        return f" at {_tokens(lanes):,} of {recipe.train_tokens:,} train tokens"
    bound = recipe.row_bound
    return "" if bound is None else f" after {_rows(lanes):,} of {bound:,} rows"


def _uneven(recipe: Recipe, lanes: Sequence[LaneEnd]) -> str:
    short = [(n, lane) for n, lane in enumerate(lanes) if lane["ended_by"] == "source"]
    if recipe.train_tokens is not None:
        whole = f"wrote {_tokens(lanes):,} train tokens for {recipe.train_tokens:,} asked for"
        parts = [(n, e["train_tokens"], e["train_tokens_bound"] or 0) for n, e in short]
        return f"{whole}: {_ended(parts, 'train tokens')}"
    parts = [(n, end["rows_visited"], end["rows_bound"] or 0) for n, end in short]
    return f"visited {_rows(lanes):,} of {recipe.row_bound or 0:,} rows: {_ended(parts, 'rows')}"


def _short_of_rows(recipe: Recipe, rows: Sequence[int]) -> str:
    parts = [(lane, count, _part(recipe, lane) or 0) for lane, count in enumerate(rows)]
    return _ended([part for part in parts if part[1] < part[2]], "rows", "end")


def _ended(parts: Sequence[tuple[int, int, int]], unit: str, verb: str = "ended") -> str:
    """The lanes that fall short, each given as (number, found, its part of the bound)."""
    shown = [
        f"the files of lane {lane} {verb} after {found:,} of its {part:,} {unit}"
        for lane, found, part in parts[:_SHOWN]
    ]
    if len(parts) > _SHOWN:
        shown.append(f"{len(parts) - _SHOWN:,} other lanes are short too")
    return "; ".join(shown)


def _rows(lanes: Sequence[LaneEnd]) -> int:
    return sum(lane["rows_visited"] for lane in lanes)


def _tokens(lanes: Sequence[LaneEnd]) -> int:
    return sum(lane["train_tokens"] for lane in lanes)
