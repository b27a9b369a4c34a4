"""The project's notebook for tests: its cells, its functions, and small runs of it."""

import contextlib
import copy
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "full_llm_pipeline.ipynb"

Notebook = Any


def load() -> Notebook:
    """The committed notebook."""
    import nbformat  # takes seconds, and most tests need no more than the code of the cells

    return nbformat.read(PATH, as_version=4)


def cells() -> list[SimpleNamespace]:
    """The cells as they are committed, with their source as one text."""
    stored = json.loads(PATH.read_text())["cells"]
    return [SimpleNamespace(**{**cell, "source": "".join(cell["source"])}) for cell in stored]


def _code() -> dict[str, str]:
    """Name -> code of each code cell, in order."""
    return {cell.id: cell.source for cell in cells() if cell.cell_type == "code"}


def source(cell_id: str) -> str:
    """The code of one cell."""
    return _code()[cell_id]


def normalizers() -> dict[str, Any]:
    """``NORMALIZERS`` as the cells define it."""
    names: dict[str, Any] = {}
    imports = [line for line in source("imports").splitlines() if ".normalizers" in line]
    exec("\n".join(imports), names)
    for name, code in _code().items():
        looks = ("normalize", "normalize-rejects", "normalize-look")
        if name.startswith("norm") and name not in looks:
            exec(code, names)
    found: dict[str, Any] = names["NORMALIZERS"]
    return found


def small(
    data_dir: Path, *, until: str | None = None, extra: str = "", **parameters: Any
) -> Notebook:
    """A copy with other parameters; with ``until`` it ends with this cell.

    ``extra`` is code that runs after the cell ``cache``.
    """
    notebook = copy.deepcopy(load())
    ids = [cell.id for cell in notebook.cells]
    if until is not None:
        notebook.cells = notebook.cells[: ids.index(until) + 1]
    short = {"MAX_LEN": 64, "VOCAB_SIZE": 400, "SAMPLE_LIMIT": 250}
    values = {"DATA_DIR": str(data_dir), **short, **parameters}
    notebook.cells[ids.index("parameters")].source += "\n" + "\n".join(
        f"{name} = {value!r}" for name, value in values.items()
    )
    notebook.cells[ids.index("cache")].source += "\n" + extra
    return notebook


def run(notebook: Notebook) -> str:
    """Execute in the project folder; returns all text output."""
    from nbclient import NotebookClient

    client = NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(ROOT)}})
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return "".join(output.get("text", "") for cell in cells for output in cell.outputs)


class Ended(NamedTuple):
    """How a run of cells ended, negative if by a signal, and what it had printed."""

    status: int
    text: str


def run_in_turn(notebooks: list[Notebook], folder: Path) -> list[Ended]:
    """Execute one after another, each in a process of its own; ``folder`` gets what they print.

    No kernel is started, so cells show nothing but what they print.
    """
    outputs = [folder / f"run-{n}.txt" for n in range(len(notebooks))]
    cells = [[c.source for c in n.cells if c.cell_type == "code"] for n in notebooks]
    job = {
        "imports": f"{source('imports')}\nimport datasets",
        "runs": [(code, str(path)) for code, path in zip(cells, outputs, strict=True)],
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.cell_runs"],
        input=json.dumps(job), env={**os.environ, "MPLBACKEND": "Agg"}, cwd=ROOT,
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    statuses = map(int, done.stdout.split())
    return [Ended(s, path.read_text()) for s, path in zip(statuses, outputs, strict=True)]


def kill_in(stage: str, at: int) -> str:
    """Code that kills its process when a stage has reached ``at`` of its units."""
    return f"""
import dataclasses, os, signal
def _fatal(name, done, total):
    if name == {stage!r} and done >= {at}:
        os.kill(os.getpid(), signal.SIGKILL)
cache = dataclasses.replace(cache, on_progress=_fatal)
bars.show_lane = lambda progress: _fatal("shards", progress.rows, 0)
"""


def executed_by_command(notebook: Path, output: Path) -> subprocess.CompletedProcess[str]:
    """``jupyter execute`` as the README calls it."""
    command = [sys.executable, "-m", "jupyter", "execute", f"--output={output}", str(notebook)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def outputs_of(path: Path) -> list[Any]:
    """Every output stored in a notebook file."""
    cells = json.loads(path.read_text())["cells"]
    return [output for cell in cells for output in cell.get("outputs", [])]


def cells_until(cell_id: str, data_dir: Path, **parameters: Any) -> dict[str, Any]:
    """The names that the code cells up to one of them leave, run in this process."""
    names: dict[str, Any] = {}
    run = small(data_dir, until=cell_id, **parameters)
    with _logging_as_before():
        for cell in run.cells:
            if cell.cell_type == "code":
                exec(cell.source, names)
    return names


@contextlib.contextmanager
def _logging_as_before() -> Iterator[None]:
    """The notebook's cells set up logging for their own process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.getLogger("pipeline_lib").setLevel(logging.NOTSET)
