"""Progress is one line for people: what was done, how fast, and what is left."""

import logging

import pytest

from pipeline_lib.progress import ProgressBars, ProgressReporter, report_progress
from pipeline_lib.records import LaneProgress

HALF = LaneProgress(
    lane=0, rows=5_000, documents=4_900, train_tokens=1_000_000, val_tokens=50_000,
    elapsed_seconds=90.0, rate=20_000.0, rows_at_most=10_000,
)  # fmt: skip
TOKENS = HALF._replace(tokens_at_most=4_000_000, rows_at_most=None)
"""A lane that is bounded in tokens; others are bounded in rows."""


def test_the_line_counts_and_gives_the_time_left_to_the_bound() -> None:
    assert report_progress(TOKENS) == (
        "5,000 rows, 4,900 documents, 1,000,000 train + 50,000 val tokens, 20,000 tokens/s, "
        "1 min 30 s elapsed, 4 min 30 s left"
    )


def test_the_time_left_is_to_what_ends_first_the_bound_or_the_source() -> None:
    assert "1 min 30 s left" in report_progress(HALF)
    assert "1 min 30 s left" in report_progress(TOKENS._replace(rows_at_most=10_000))
    assert "4 min 30 s left" in report_progress(TOKENS._replace(rows_at_most=1_000_000))
    assert "0.0 s left" in report_progress(HALF._replace(rows_at_most=5_000))
    assert "left" not in report_progress(HALF._replace(rows_at_most=None))


def test_without_a_token_bound_the_nominal_projection_is_shown_and_labelled() -> None:
    line = report_progress(HALF)
    assert "1 min 30 s left (nominal: 83 h 19 min to 6 billion train tokens)" in line
    assert "nominal" not in report_progress(TOKENS)


def test_the_first_moment_divides_by_nothing() -> None:
    for lane in (HALF, TOKENS):
        start = lane._replace(rows=0, documents=0, train_tokens=0, elapsed_seconds=0.0, rate=0.0)
        assert report_progress(start).endswith("0 tokens/s, 0.0 s elapsed")


def test_behind_the_bound_nothing_is_left() -> None:
    assert report_progress(TOKENS._replace(train_tokens=5_000_000)).endswith("0.0 s left")


def test_of_several_lanes_the_line_names_its_own() -> None:
    assert report_progress(HALF._replace(lane=2, lanes=3)).startswith("lane 2: 5,000 rows")


def test_lines_come_at_most_once_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    clock = iter([0.0, 3.0, 10.0, 12.0, 19.0, 20.0]).__next__
    with (
        caplog.at_level(logging.INFO, "pipeline_lib"),
        ProgressReporter(10.0, clock=clock) as reporter,
    ):
        for _ in range(5):
            reporter(HALF)
    assert len(caplog.records) == 2


def test_on_a_terminal_each_lane_has_a_bar_to_where_it_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with ProgressReporter(10.0) as reporter:
        reporter(HALF._replace(lanes=2))
        reporter(TOKENS._replace(lane=1, lanes=2))
    shown = capsys.readouterr().err
    assert "shards, lane 0:  50%" in shown and "5.00k/10.0k" in shown
    assert "shards, lane 1:  25%" in shown and "5.00k/20.0k" in shown and "20,000 tokens/s" in shown


def test_the_bar_of_a_notebook_ends_where_the_lane_ends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bars = ProgressBars()
    bars.show_lane(HALF._replace(rows=0, train_tokens=0))
    bars.show_lane(HALF._replace(rows=10_000))
    bars.close()
    assert "shards: 100%" in capsys.readouterr().err
