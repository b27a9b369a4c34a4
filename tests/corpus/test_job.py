"""When a commit is due."""

from pipeline_lib.corpus.job import CommitClock
from pipeline_lib.signals import StopRequest


def test_a_commit_is_due_after_the_interval_or_a_signal() -> None:
    now, stop = [0.0], StopRequest()
    due = CommitClock(lambda: now[0], 60.0, stop)
    assert not due()
    now[0] = 60.0
    assert due() and not due()
    stop.signum = 15
    assert due() and due()
