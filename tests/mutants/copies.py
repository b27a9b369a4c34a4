"""Copies of the checkout in which sources are changed, each with a worker in it."""

import contextlib
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.worker import Job, Trial

_LEFT_OUT = shutil.ignore_patterns(".*", "data", "__pycache__", "*.egg-info", "build", "dist")


class Worker:
    """A process in a copy of its own."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTHONPATH"] = str(folder)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.worker"],
            cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, job: Job) -> Trial:
        """The result of one job; ``RuntimeError`` if the worker has died."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps(job) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise RuntimeError("a worker died; is there memory for it and its tests?")
        trial: Trial = json.loads(line)
        return trial

    def stop(self) -> None:
        """End the process and the tests that it runs."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def workers(root: Path, count: int) -> Iterator[list[Worker]]:
    """Workers in copies of the checkout ``root``; both are gone behind the block."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        started: list[Worker] = []
        try:
            for number in range(count):
                started.append(Worker(_copied(root, Path(folder, str(number)))))
            yield started
        finally:
            for worker in started:
                worker.stop()


def _copied(root: Path, target: Path) -> Path:
    shutil.copytree(root, target, ignore=_LEFT_OUT, symlinks=True)
    (target / "tmp").mkdir(exist_ok=True)
    for path in target.rglob("*.py"):  # checked by content: a change of equal size is seen too
        with contextlib.suppress(py_compile.PyCompileError):
            py_compile.compile(
                str(path), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
            )
    return target
