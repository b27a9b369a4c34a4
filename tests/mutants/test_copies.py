"""A change is tried in a copy: the checkout stays as it is, and nothing is left behind."""

import tempfile
from pathlib import Path

import pytest

from tests.mutants.copies import workers
from tests.mutants.worker import Job

TEST = """
import subprocess, sys
from pipeline_lib.small import add

def test_sum():
    assert add(1, 2) == 3

def test_elsewhere():
    code = "from pipeline_lib.small import add; assert add(1, 2) == 3"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of one module, with this package in it."""
    root, here = tmp_path / "checkout", Path(__file__).parent
    for folder in ("pipeline_lib", "tests/mutants", "data", ".git"):
        (root / folder).mkdir(parents=True)
    (root / "pipeline_lib" / "__init__.py").write_text("")
    (root / "pipeline_lib" / "small.py").write_text(SMALL)
    (root / "tests" / "test_small.py").write_text(TEST)
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    for name in ("worker.py", "operators.py"):
        (root / "tests" / "mutants" / name).write_text((here / name).read_text())
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return root


SMALL = "def add(a, b):\n    return a + b\n"


def job(source: str, seconds: float = 60) -> Job:
    tests = ["tests/test_small.py"]
    return Job(path="pipeline_lib/small.py", source=source, tests=tests, seconds=seconds)


def test_changes_of_equal_size_are_told_apart_and_leave_no_trace(checkout: Path) -> None:
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    sources = [SMALL, SMALL.replace("+", "-"), SMALL]
    endless = "import time\n\n\ndef add(a, b):\n    time.sleep(60)\n"
    with workers(checkout, 1) as (worker,):
        found = [worker.run(job(source))["outcome"] for source in sources]
        assert worker.run(job(endless, seconds=0.5))["outcome"] == "timeout"
    assert found == ["passed", "failed", "passed"]
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before
    assert [*Path(tempfile.gettempdir()).iterdir()] == []


def test_an_interrupt_leaves_neither_copies_nor_processes(checkout: Path) -> None:
    with pytest.raises(KeyboardInterrupt), workers(checkout, 2):
        assert len([*Path(tempfile.gettempdir()).iterdir()]) == 1
        raise KeyboardInterrupt
    assert [*Path(tempfile.gettempdir()).iterdir()] == []
