"""What a benchmark runs on: the options, the corpus, the tokenizers, the peers' environment.

Everything that is missing is made once and kept in ``benchmarks/.cache``; removing that folder
removes all of it.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import corpus
import machine
import pyarrow.parquet as pq

HERE = Path(__file__).parent
PROJECT = HERE.parent
CACHE = HERE / ".cache"
PROGRAMS = HERE / "programs"
PATH = os.pathsep.join([str(PROJECT), str(HERE)])
VOCABULARY = 50_257
CHAT_VOCABULARY = 32_000
ATTEMPTS, LONG_SECONDS = 3, 30.0


@dataclass(frozen=True)
class Inputs:
    """Resolved inputs. ``peers``: Python of the peers' environment, ``None`` without peers."""

    corpus: Path
    column: str
    tokenizer: Path
    repeat: int
    peers: Path | None
    patience: float
    work: Path
    slow_files: int

    @property
    def files(self) -> list[Path]:
        """The parquet files in name order."""
        return sorted(self.corpus.glob("*.parquet"))

    @property
    def rows(self) -> int:
        """Documents in the corpus."""
        return sum(pq.read_metadata(path).num_rows for path in self.files)

    def ours(self, output: Path, *options: str | Path) -> list[str | Path]:
        """The project's command over the whole corpus."""
        command: list[str | Path] = [sys.executable, "-m", "pipeline_lib.prepare_data"]
        command += ["--output-dir", output, "--dataset", self.corpus, "--tokenizer", self.tokenizer]
        command += ["--text-column", self.column, "--max-documents", str(self.rows)]
        return [*command, *options]

    def program(self, name: str, *options: str | Path, peer: bool = False) -> list[str | Path]:
        """One of the programs beside this file, in the environment it needs."""
        python = self.peers if peer and self.peers else Path(sys.executable)
        return [python, PROGRAMS / f"{name}.py", *options]

    def measure(self, command: Sequence[str | Path], makes: Path | None = None) -> machine.Run:
        """Measure one command when the machine is quiet, from the project's folder.

        A short run that others disturbed is done again, at most twice, and the least
        disturbed one counts; ``makes`` is the folder it writes, removed before each.
        """
        runs: list[machine.Run] = []
        while True:
            if makes is not None:
                _clear(makes)
            machine.wait_until_quiet(self.patience)
            environment = {"PYTHONPATH": PATH}
            run = machine.measure(command, folder=PROJECT, environment=environment)
            print(f"  {run.wall:.1f} s, others {run.others:.2f} cores", file=sys.stderr, flush=True)
            runs.append(run)
            calm = run.others <= machine.QUIET_CORES or run.wall > LONG_SECONDS
            if calm or makes is None or len(runs) == ATTEMPTS:
                return min(runs, key=lambda one: one.others)

    def empty(self, name: str) -> Path:
        """A folder that is not there, for one run to make."""
        self.work.mkdir(parents=True, exist_ok=True)
        _clear(self.work / name)
        return self.work / name

    def part(self, files: int) -> Path:
        """A folder with links to the first files of the corpus."""
        folder = self.empty(f"first-{files}-files")
        folder.mkdir()
        for path in self.files[:files]:
            (folder / path.name).symlink_to(path.resolve())
        return folder


def _clear(folder: Path) -> None:
    for path in (folder, folder.with_name(folder.name + ".incomplete")):
        shutil.rmtree(path, ignore_errors=True)


def options(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--corpus", type=Path, help="folder of parquet files (default: one is built)")
    add("--text-column", default="text", help="column that holds the text, without nulls")
    add("--tokenizer", type=Path, help="folder with a tokenizer.json (default: one is trained)")
    add("--repeat", type=int, default=3, help="interleaved runs of each way (default 3)")
    add("--peers", action=argparse.BooleanOptionalAction, default=True, help="run peers too")
    add("--slow-files", type=int, default=2, help="files that slow peers get (default 2)")
    add("--patience", type=float, default=60, help="seconds to wait for a quiet machine")
    add("--work", type=Path, default=CACHE / "work", help="scratch folder, on a real disk")
    return parser


def resolve(given: argparse.Namespace) -> Inputs:
    """Build what is missing; the result names every input."""
    CACHE.mkdir(exist_ok=True)
    built = given.corpus or corpus.real_text(CACHE)
    column = given.text_column if given.corpus else "text"
    return Inputs(
        corpus=built.resolve(),
        column=column,
        tokenizer=(given.tokenizer or trained(built, column, VOCABULARY)).resolve(),
        repeat=given.repeat,
        peers=_peers() if given.peers else None,
        patience=given.patience,
        work=given.work.resolve(),
        slow_files=given.slow_files,
    )


def arguments(inputs: Inputs) -> list[str]:
    """The options that give another process the same inputs."""
    parts = ["--corpus", str(inputs.corpus), "--text-column", inputs.column]
    parts += ["--tokenizer", str(inputs.tokenizer), "--repeat", str(inputs.repeat)]
    parts += ["--patience", str(inputs.patience), "--work", str(inputs.work)]
    parts += ["--slow-files", str(inputs.slow_files)]
    return [*parts, "--peers" if inputs.peers else "--no-peers"]


def trained(folder: Path, column: str, size: int) -> Path:
    """A byte-level BPE of ``size`` ids, trained on about 30 MB of a corpus, once."""
    target = CACHE / f"tokenizer-{size}-{corpus.label(folder)}"
    if not (target / "tokenizer.json").exists():
        print(f"training a tokenizer of {size:,} ids", flush=True)
        command = [sys.executable, PROGRAMS / "bpe_train.py", "--kind", "ours"]
        command += ["--corpus", folder, "--column", column, "--output", target]
        command += ["--bytes", "30000000", "--vocabulary", str(size)]
        machine.measure(command, folder=PROJECT, environment={"PYTHONPATH": PATH})
    return target


def _peers() -> Path:
    """Python of a virtual environment on top of this one, with the peers installed in it."""
    folder, wanted = CACHE / "peers", HERE / "requirements-peers.txt"
    python, done = folder / "bin" / "python", folder / "installed.txt"
    if done.exists() and done.read_text() == wanted.read_text():
        return python
    print(f"installing the peers into {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    mine = [path for path in sys.path if path.endswith("site-packages")]
    (site / "project.pth").write_text("\n".join(mine) + "\n")
    pip = [python, "-m", "pip", "install", "-q", "--no-deps", "-r", wanted]
    subprocess.run(pip, check=True)
    done.write_text(wanted.read_text())
    return python
