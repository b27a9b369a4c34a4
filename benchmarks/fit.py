"""What stage 1 of the notebook predicts, beside what the run then takes: disk and memory.

The notebook runs whole, in a kernel of its own, with its default parameters: on the offline
sample, and on a data set of 200 MB that a hub on the loopback address serves, with shards from the
benchmark's corpus. Disk is all files below the data folder and the Hub caches, memory that of the
kernel; both are sampled every 50 ms.
"""

import hashlib
import io
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus
import inputs
import machine
import nbformat
import pyarrow as pa
import pyarrow.parquet as pq
from nbclient import NotebookClient
from tables import show

sys.path.append(str(inputs.PROJECT / "tests"))

from hub import Hub
from hub.publish import publish_dataset

SIZE, FILES = 200_000_000, 4
CHATS = pa.schema(
    [
        ("prompt", pa.string()),
        ("prompt_id", pa.string()),
        ("messages", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
    ]
)
STAGES = {
    "load": "load",
    "normalize": "conversations",
    "tokenizer-train": "tokenizer",
    "shards-prepare": "shards",
    "pretrain-dataset": "pretrain",
    "sft-dataset": "sft",
    "dpo-dataset": "dpo",
    "train": "tiny model",
}
"""Cells that have a row in the second table of stage 1."""
WHOLE = "whole run"
PREDICTED = """
import json
_needs = {stage.name: (stage.disk, stage.memory) for stage in report.stages}
_whole = (sum(disk.needed for disk in report.disks), report.needed_memory)
print("predicted", json.dumps(_needs | {"whole run": _whole}))
"""
ONE_SOURCE = """
SOURCES = download_data.DATASETS = choose(download_data.DATASETS, ["ultrachat"])
"""
Peaks = dict[str, tuple[int, int]]
"""By stage: bytes on disk, bytes in memory."""


def main() -> None:
    given = inputs.resolve(inputs.options(__doc__ or "").parse_args())
    print(machine.facts())
    folder = given.empty("fit")
    hub = Hub()
    os.environ |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "hf")}
    os.environ |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    _publish(hub, given)
    for title, source, extra in (("the sample", "sample", ""), ("200 MB", "hub", ONE_SOURCE)):
        machine.wait_until_quiet(given.patience)
        notebook = _notebook(source, folder / "data", extra)
        measured = _measured(notebook, folder)
        shutil.rmtree(folder)
        _show(title, _predicted(notebook), measured)
    hub.close()


def _publish(hub: Hub, given: inputs.Inputs) -> None:
    """A chat data set cut from the corpus, and the corpus itself, under names that are known."""
    texts = corpus.some_texts(given.corpus, given.column, 1 << 40)
    tables = _chats(_pieces(texts))
    files = [_parquet(next(tables)) for _ in range(FILES)]
    publish_dataset(hub, "HuggingFaceH4/ultrachat_200k", {"default": {"train_sft": files}})
    read = (pq.read_table(path, columns=[given.column]) for path in given.files)
    shown = [_parquet(table.rename_columns(["text"])) for table in read]
    publish_dataset(hub, "HuggingFaceFW/fineweb-edu", {"sample-10BT": {"train": shown}})


def _pieces(texts: Iterator[str]) -> Iterator[str]:
    """Stripped pieces of 10 to 250 words, at most 4,000 characters."""
    number = 0
    for text in texts:
        words = text.split(" ")
        while words:
            size = 10 + (number * 37) % 241
            piece = " ".join(words[:size])[:4_000].strip()
            words, number = words[size:], number + 1
            if piece:
                yield piece


def _chats(pieces: Iterator[str]) -> Iterator[pa.Table]:
    """Conversations of two, four and six turns; each table is about one file's bytes in Arrow."""
    rows: list[dict[str, Any]] = []
    size = 0
    while True:
        said = [next(pieces) for _ in range(2 * (1 + len(rows) % 3))]
        roles = ["user", "assistant"] * 3
        turns = [{"content": text, "role": role} for text, role in zip(said, roles, strict=False)]
        name = hashlib.sha256(said[0].encode()).hexdigest()
        rows.append({"prompt": said[0], "prompt_id": name, "messages": turns})
        size += sum(len(text.encode()) + 15 for text in [said[0], name, *said])
        if size >= SIZE // FILES:
            yield pa.Table.from_pylist(rows, schema=CHATS)
            rows, size = [], 0


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", row_group_size=1_000)
    return sink.getvalue()


def _notebook(source: str, data_dir: Path, extra: str) -> Any:
    notebook = nbformat.read(inputs.PROJECT / "full_llm_pipeline.ipynb", as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    chosen = re.sub(r'^SOURCE = "\w+"', f'SOURCE = "{source}"', cells["parameters"].source)
    cells["parameters"].source = f"{chosen}\nDATA_DIR = {str(data_dir)!r}"
    cells["site"].source += extra
    cells["preflight"].source += PREDICTED
    return notebook


def _predicted(notebook: Any) -> Peaks:
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    text = "".join(output.get("text", "") for output in outputs)
    (line,) = re.findall(r"^predicted (.*)$", text, re.M)
    return {name: (disk, memory) for name, (disk, memory) in json.loads(line).items()}


def _measured(notebook: Any, folder: Path) -> Peaks:
    """The peaks of a run of the notebook, by stage; what lies before a stage belongs to none."""
    at, stop = [""], threading.Event()
    peaks: dict[str, list[int]] = {name: [0, 0] for name in [*STAGES.values(), WHOLE]}

    def watch() -> None:
        while not stop.wait(machine.SAMPLE_SECONDS):
            now = (_folder_bytes(folder), machine.children_bytes())
            for name in {at[0], WHOLE} & peaks.keys():
                peaks[name] = [max(pair) for pair in zip(peaks[name], now, strict=True)]

    def begins(cell: Any, cell_index: int) -> None:
        at[0] = STAGES.get(cell.id, "")

    place = {"metadata": {"path": str(inputs.PROJECT)}}
    client = NotebookClient(notebook, timeout=None, resources=place, on_cell_start=begins)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        client.execute()
    finally:
        stop.set()
        thread.join()
    return {name: (disk, memory) for name, (disk, memory) in peaks.items()}


def _folder_bytes(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).lstat().st_size
            except OSError:
                continue  # removed at this moment
    return total


def _show(title: str, predicted: Peaks, measured: Peaks) -> None:
    rows = []
    for name, expected in predicted.items():
        row = [name]
        for said, found in zip(expected, measured[name], strict=True):
            row += [f"{said / 1e6:,.1f}", f"{found / 1e6:,.1f}", f"{said / found:.2f}"]
        rows.append(row)
    columns = [f"{what}, {kind}" for what in ("disk", "memory") for kind in _FIGURES]
    show(f"fit: {title}, MB", ("stage", *columns), rows)


_FIGURES = ("predicted", "measured", "ratio")


if __name__ == "__main__":
    main()
