"""Runs the tests of one changed module after another, each in a fork of a warm process.

The process stands in a copy of the checkout of its own. It reads jobs from stdin and writes results
to stdout, one JSON object a line; at the end of stdin it ends. What it imports beforehand knows
nothing of the package or of its tests, so a fork sees only the changed source.
"""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TypedDict

import hypothesis
import numpy
import pyarrow.compute
import pyarrow.parquet
import pytest
import tokenizers  # each is here for its import alone

_ = (hypothesis, numpy, pyarrow.compute, pyarrow.parquet, tokenizers)
OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--basetemp=tmp/pytest"),
    *("-W", "ignore:Module already imported"),
)


class Job(TypedDict):
    """A file of the copy, its changed source, the tests to run, and the seconds they may take."""

    path: str
    source: str
    tests: list[str]
    seconds: float


class Trial(TypedDict):
    """``outcome``: "passed", "failed" or "timeout"."""

    outcome: str
    seconds: float


def run(job: Job) -> Trial:
    """Run the tests of a job, and put the file back as it was."""
    path, started = Path(job["path"]), time.monotonic()
    before = path.read_bytes()
    path.write_bytes(job["source"].encode())
    try:
        outcome = _forked(job["tests"], started + job["seconds"])
    finally:
        path.write_bytes(before)
    return Trial(outcome=outcome, seconds=time.monotonic() - started)


def _forked(tests: list[str], deadline: float) -> str:
    child = os.fork()
    if child == 0:
        _become_pytest(tests)
    try:
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return "passed" if status == 0 else "failed"
            time.sleep(0.02)
        return "timeout"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # it and all that it started
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def _become_pytest(tests: list[str]) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        code = int(pytest.main([*OPTIONS, *tests]))
    finally:
        os._exit(code)  # not a line more of the worker


def main() -> None:
    """Do the jobs of stdin."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        for line in sys.stdin:
            sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
