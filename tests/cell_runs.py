"""Runs lists of cells one after another, each in a fork of one process with their imports made.

``python -m tests.cell_runs`` reads a ``Job`` from stdin, as JSON. It stands for kernels that are
started anew, without the seconds that each of them takes to start.
"""

import json
import os
import sys
import traceback
from typing import Any, TypedDict


class Job(TypedDict):
    """Code that imports, and the runs: each is its cells and the file for what it prints."""

    imports: str
    runs: list[tuple[list[str], str]]


def main() -> None:
    """Do the job of stdin; prints how each run ended, as ``waitstatus_to_exitcode`` says it."""
    job: Job = json.load(sys.stdin)
    names: dict[str, Any] = {}
    exec(job["imports"], names)
    for cells, output in job["runs"]:
        child = os.fork()
        if child == 0:
            _become_run(cells, output, names)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become_run(cells: list[str], output: str, names: dict[str, Any]) -> None:
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT, 0o644), 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    code = 1
    try:
        for cell in cells:
            exec(cell, names)
        code = 0
    except Exception:
        traceback.print_exc(file=sys.stdout)
    finally:
        sys.stdout.flush()
        os._exit(code)  # not a line more of the process that forked


if __name__ == "__main__":
    main()
