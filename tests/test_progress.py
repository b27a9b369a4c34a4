"""Progress is one line for people: what was done, how fast, and what is left."""

import logging

import pytest

from pipeline_lib.progress import ProgressReporter, report_progress
from pipeline_lib.records import LaneProgress

HALF = LaneProgress(
    lane=0, rows=5_000, documents=4_900, train_tokens=1_000_000, val_tokens=50_000,
    elapsed_seconds=90.0, rate=20_000.0, rows_at_most=10_000,
)  # fmt: skip
TOKENS = 4_000_000
"""The bound of a run that is bounded in tokens; others are bounded in rows."""


def test_the_line_counts_and_gives_the_time_left_to_the_bound() -> None:
    assert report_progress(HALF, TOKENS) == (
        "5,000 rows, 4,900 documents, 1,000,000 train + 50,000 val tokens, 20,000 tokens/s, "
        "1 min 30 s elapsed, 4 min 30 s left to the bound"
    )


def test_a_source_smaller_than_the_bound_is_what_the_time_left_is_to() -> None:
    line = report_progress(HALF._replace(rows_at_most=5_000))
    assert "0.0 s left" in line


def test_without_a_token_bound_the_nominal_projection_is_shown_and_labelled() -> None:
    line = report_progress(HALF)
    assert "1 min 30 s left to the bound (nominal: 83 h 19 min to 6 billion train tokens)" in line
    assert "nominal" not in report_progress(HALF, TOKENS)


def test_the_first_moment_divides_by_nothing() -> None:
    start = HALF._replace(rows=0, documents=0, train_tokens=0, elapsed_seconds=0.0, rate=0.0)
    for train_tokens in (None, TOKENS):
        assert report_progress(start, train_tokens).endswith("0 tokens/s, 0.0 s elapsed")


def test_behind_the_bound_nothing_is_left() -> None:
    line = report_progress(HALF._replace(train_tokens=5_000_000), TOKENS)
    assert line.endswith("0.0 s left to the bound")


def test_a_lane_counts_towards_its_part_of_the_bound() -> None:
    assert "1 min 30 s left" in report_progress(HALF, TOKENS, lanes=2)


def test_lines_come_at_most_once_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    clock = iter([0.0, 3.0, 10.0, 12.0, 19.0, 20.0]).__next__
    with (
        caplog.at_level(logging.INFO, "pipeline_lib"),
        ProgressReporter(10.0, max_documents=10_000, clock=clock) as reporter,
    ):
        for _ in range(5):
            reporter(HALF)
    assert len(caplog.records) == 2


def test_on_a_terminal_there_is_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with ProgressReporter(10.0, train_tokens=TOKENS) as reporter:
        reporter(HALF)
        reporter(HALF._replace(train_tokens=4_000_000))
    shown = capsys.readouterr().err
    assert "4.00M/4.00M" in shown and "20,000 tokens/s" in shown
