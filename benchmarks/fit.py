"""What stage 1 of the notebook predicts, beside what the run then takes: disk and memory.

The notebook runs whole, in a kernel of its own, with its default parameters: on the offline
sample, and on a data set of about 200 MB that a hub on the loopback address serves, with shards
from the benchmark's corpus. Disk is all files below the data folder and the Hub caches, memory
that of the kernel; both are sampled every 50 ms.
"""

import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import conversations
import machine
import nbformat
import pyarrow as pa
import pyarrow.parquet as pq
from cache import PROJECT, clear, scratch
from inputs import Inputs
from nbclient import NotebookClient
from tables import Row, show

sys.path.append(str(PROJECT / "tests"))

from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

COUNT, WORDS, FILES = 100_000, 250, 4
"""Conversations, the most words in a turn, and files: about 200 MB."""
CELLS = (
    *("load", "normalize", "tokenizer-train", "shards-prepare"),
    *("pretrain-dataset", "sft-dataset", "dpo-dataset", "train"),
)
"""Of the notebook, in the order of the rows in the second table of stage 1."""
WHOLE = "whole run"
PREDICTED = f"""
import json
_needs = {{stage.name: (stage.disk, stage.memory) for stage in report.stages}}
_whole = (sum(disk.needed for disk in report.disks), report.needed_memory)
print("predicted", json.dumps(_needs | {{"{WHOLE}": _whole}}))
"""
ONE_SOURCE = """
SOURCES = download_data.DATASETS = choose_datasets(download_data.DATASETS, ["ultrachat"])
"""
RUNS = {"the sample": ("sample", ""), "200 MB": ("hub", ONE_SOURCE)}
"""``SOURCE`` of the notebook, and what is added to its cell ``cache``."""
Peaks = dict[str, tuple[int, int]]
"""Bytes on disk and in memory, by stage or cell; the whole run comes last."""


def fit(inputs: Inputs) -> None:
    """Run the notebook on both sources, and show predictions beside peaks."""
    hub = Hub()
    with contextlib.closing(hub):
        _publish(hub, inputs)
        for title, (source, extra) in RUNS.items():
            folder = scratch("fit")
            notebook = _notebook(source, folder / "data", extra)
            machine.wait_until_quiet()
            measured = _measured(notebook, folder, hub.url).values()
            predicted = _predicted(notebook).items()
            rows = [_row(*said, found) for said, found in zip(predicted, measured, strict=True)]
            show(f"fit: {title}, MB", rows)
            clear(folder)


def _publish(hub: Hub, inputs: Inputs) -> None:
    """Publish conversations cut from the corpus, and the corpus itself, under known names."""
    made = list(conversations.tables(inputs.texts(), COUNT, WORDS))
    files = [pa.concat_tables(made[number::FILES]) for number in range(FILES)]
    configs = {"default": {"train_sft": files}}
    publish_dataset(hub, "HuggingFaceH4/ultrachat_200k", configs, row_group_size=1_000)
    files = [pq.read_table(path, columns=[inputs.column]) for path in inputs.files]
    configs = {"sample-10BT": {"train": [file.rename_columns(["text"]) for file in files]}}
    publish_dataset(hub, "HuggingFaceFW/fineweb-edu", configs, row_group_size=1_000)


def _notebook(source: str, data_dir: Path, extra: str) -> Any:
    notebook = nbformat.read(PROJECT / "full_llm_pipeline.ipynb", as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    chosen = re.sub(r'^SOURCE = "\w+"', f'SOURCE = "{source}"', cells["parameters"].source)
    cells["parameters"].source = f"{chosen}\nDATA_DIR = {str(data_dir)!r}"
    cells["cache"].source += extra
    cells["preflight"].source += PREDICTED
    return notebook


def _predicted(notebook: Any) -> Peaks:
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    text = "".join(output.get("text", "") for output in outputs)
    (line,) = re.findall(r"^predicted (.*)$", text, re.M)
    return {stage: (disk, memory) for stage, (disk, memory) in json.loads(line).items()}


def _measured(notebook: Any, folder: Path, hub_url: str) -> Peaks:
    """The peaks of a run of the notebook; cells of no stage count in the whole run alone."""
    peaks: Peaks = dict.fromkeys([*CELLS, WHOLE], (0, 0))
    now, kernel = WHOLE, machine.TreeUsage(os.getpid(), descendants=True)

    def sample() -> None:
        kernel.sample()
        found = (_folder_bytes(folder), kernel.memory)
        for name in (now, WHOLE):
            disk, memory = map(max, peaks[name], found)
            peaks[name] = (disk, memory)

    def begins(cell: Any, cell_index: int) -> None:
        nonlocal now
        now = cell.id if cell.id in CELLS else WHOLE

    place = {"metadata": {"path": str(PROJECT)}}
    client = NotebookClient(notebook, timeout=None, resources=place, on_cell_start=begins)
    names = {"HF_ENDPOINT": hub_url, "HF_HOME": str(folder / "hf"), "HF_HUB_DISABLE_XET": "1"}
    with machine.sampling(sample):
        client.execute(env={**os.environ, **names, "HF_HUB_DISABLE_TELEMETRY": "1"})
    return peaks


def _folder_bytes(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # removed at this moment
                total += Path(parent, name).lstat().st_size
    return total


def _row(stage: str, predicted: tuple[int, int], measured: tuple[int, int]) -> Row:
    row = {"stage": stage}
    for kind, said, found in zip(("disk", "memory"), predicted, measured, strict=True):
        row[f"{kind}, predicted"] = f"{said / 1e6:,.1f}"
        row[f"{kind}, measured"] = f"{found / 1e6:,.1f}"
        row[f"{kind}, ratio"] = f"{said / found:.2f}"
    return row
