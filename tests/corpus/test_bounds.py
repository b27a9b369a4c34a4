"""A run says beforehand what its bounds let it visit, and afterwards which of them ended it."""

from pathlib import Path
from typing import Any

import pytest
from corpora import REFERENCE, small_recipe, texts, write_parquet

from pipeline_lib.corpus.bounds import ending, forecast, lane_end, rows_to_visit
from pipeline_lib.corpus.description import describe, summary
from pipeline_lib.corpus.pinned import pin
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.recipe import Recipe

ALL = "--all-documents"


def uneven(folder: Path, **changes: Any) -> Recipe:
    """Files of 20 and 88 rows, one for each of two lanes."""
    for name, count in (("a", 20), ("b", 88)):
        write_parquet(folder / "corpus" / f"{name}.parquet", texts(count, 100 * count))
    return small_recipe(folder, lanes=2, **changes)


def short_lane(metadata: Any) -> int:
    (lane,) = [n for n, end in enumerate(metadata["lanes"]) if end["ended_by"] == "source"]
    return lane


def test_a_lane_that_ends_before_its_part_is_named_in_forecast_result_and_last_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pipeline_lib")
    recipe = uneven(tmp_path, max_documents=80)
    told = describe(pin(recipe), tmp_path / "out")["visits"]
    metadata = prepare(recipe, tmp_path / "out", options=REFERENCE)
    lane = short_lane(metadata)
    assert metadata["counts"]["rows_visited"] == 60
    assert metadata["lanes"][lane]["rows_visited"] == 20
    assert metadata["lanes"][1 - lane]["ended_by"] == "max_documents"
    said = f"visited 60 of 80 rows: the files of lane {lane} ended after 20 of its 40 rows"
    assert f"; {said}; " in summary(metadata, tmp_path / "out")
    assert f"less than was asked for: {said}" in caplog.text
    assert told.startswith("visits 60 of the 80 rows asked for: ")
    assert f"lane {lane} end after 20 of its 40 rows" in told and told in caplog.text


def test_a_lane_that_ends_before_its_part_of_the_tokens_is_named(tmp_path: Path) -> None:
    recipe = uneven(tmp_path, max_documents=None, train_tokens=1_500)
    metadata = prepare(recipe, tmp_path / "out", options=REFERENCE)
    lane, wrote = short_lane(metadata), metadata["counts"]["train_tokens"]
    end = metadata["lanes"][lane]
    assert end["train_tokens"] < end["train_tokens_bound"] == 750
    assert metadata["lanes"][1 - lane]["ended_by"] == "train_tokens"
    assert (
        f"; wrote {wrote:,} train tokens for 1,500 asked for: the files of lane {lane} ended "
        f"after {end['train_tokens']:,} of its 750 train tokens; "
    ) in summary(metadata, tmp_path / "out")


@pytest.mark.parametrize("bound", [30, 40, 88, 108, 109, 500, "all"])
def test_the_forecast_is_what_the_run_then_visits(tmp_path: Path, bound: Any) -> None:
    recipe = uneven(tmp_path, max_documents=bound, val_fraction=0.4)
    pinned = pin(recipe)
    metadata = prepare(recipe, tmp_path / "out", options=REFERENCE)
    files = metadata["source"]["files"]
    rows = [20 if name == "a.parquet" else 88 for name in files]
    assert rows_to_visit(pinned.recipe, rows) == metadata["counts"]["rows_visited"]
    ended = ending(pinned.recipe, metadata["lanes"])
    visits = describe(pinned, tmp_path / "out")["visits"]
    assert ("the source ended it" in ended) == ("visits all rows" in visits)
    assert ("the files of lane" in ended) == ("the files of lane" in visits)


def ended(recipe: Recipe, rows: int, tokens: int = 9, **more: Any) -> str:
    crossed = recipe.train_tokens is not None and tokens >= recipe.train_tokens
    return ending(recipe, [lane_end(recipe, 0, rows, tokens, crossed=crossed)], **more)


def test_the_default_bound_is_named_as_such_before_and_after() -> None:
    recipe = Recipe()
    assert forecast(recipe, [21_002]).startswith("visits 10,000 of 21,002 rows (the default bound;")
    assert forecast(recipe, [None]).startswith("visits at most 10,000 rows of the source (the def")
    assert forecast(recipe, [900]) == "visits all rows of the source (900 rows)"
    assert ended(recipe, 10_000).startswith(f"the default bound of 10,000 rows ended it ({ALL}")
    assert ended(recipe, 10_000, given=True) == "--max-documents 10,000 ended it"
    assert ended(Recipe(max_documents=500), 500) == "--max-documents 500 ended it"
    assert ended(recipe, 900) == "the source ended it after 900 of 10,000 rows"


def test_without_a_bound_on_rows_none_is_named() -> None:
    every, tokens = Recipe(max_documents="all"), Recipe(train_tokens=50)
    assert ended(every, 900) == "the source ended it"
    assert forecast(every, [21_002]) == "visits all rows of the source (21,002 rows)"
    assert forecast(every, [None]) == "visits all rows of the source"
    assert ended(tokens, 900, 51) == "--train-tokens 50 ended it"
    assert ended(tokens, 900, 49) == "the source ended it at 49 of 50 train tokens"
    assert forecast(tokens, [7]) == "goes on to 50 train tokens or the end of the source (7 rows)"


def test_of_many_lanes_the_first_are_shown_and_the_others_counted() -> None:
    recipe = Recipe(max_documents=90, lanes=9)
    ends = [lane_end(recipe, n, 10 if n == 4 else n, 0, crossed=False) for n in range(9)]
    said = ending(recipe, ends)
    assert said.startswith(
        "visited 42 of 90 rows: the files of lane 0 ended after 0 of its 10 rows"
    )
    assert said.endswith("; 5 other lanes are short too") and "lane 4" not in said


def test_a_lane_to_which_nothing_of_a_bound_falls_is_not_short() -> None:
    recipe = Recipe(max_documents=2, lanes=3)
    ends = [lane_end(recipe, n, int(n < 2), 0, crossed=False) for n in range(3)]
    assert ending(recipe, ends) == "--max-documents 2 ended it"
