"""The offline sample: every source in its exact schema, and a plain-text corpus, no network.

It is saved by the same code as a download, so the rest of the pipeline can not tell the
difference, and it has the same bytes every time: all text follows from one seed through raw
generator outputs, and files hold no time or path.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_lib import digest
from pipeline_lib.columns import Columns
from pipeline_lib.downloads import saved
from pipeline_lib.errors import DamagedFile
from pipeline_lib.sampledata import dialogues, reasoning, rows, trees
from pipeline_lib.sampledata.prose import FOREIGN, Voice
from pipeline_lib.sampledata.schemas import SCHEMAS
from pipeline_lib.storage import atomic, folders
from pipeline_lib.storage.lock import FolderLock

SAMPLE_VERSION = 2
SEED = 1_337
CORPUS = "corpus"
CORPUS_FILES, CORPUS_ROWS = 6, 600
_PIECE = 500

Generator = Callable[[Voice, int], Iterator[dict[str, Any]]]

GENERATORS: dict[str, tuple[Generator, int]] = {
    "wildchat": (rows.wildchat, 1_600),
    "soda": (rows.soda, 2_000),
    "oasst2": (trees.oasst2, 500),
    "openthoughts": (rows.openthoughts, 900),
    "wikipedia": (rows.wikipedia, 700),
    "ultrafeedback": (rows.ultrafeedback, 900),
    "ultrachat": (dialogues.ultrachat, 800),
    "lmsys": (dialogues.lmsys, 700),
    "arena": (dialogues.arena, 600),
    "dailydialog": (dialogues.dailydialog, 600),
    "bst": (dialogues.bst, 500),
    "openr1_math": (reasoning.openr1_math, 700),
    "general_thought": (reasoning.general_thought, 700),
    "nemotron": (reasoning.nemotron, 600),
}
"""How each source's rows are made, and how many (of oasst2: trees)."""


SAVED_KILOBYTES = {
    "wildchat": 2_770,
    "soda": 1_280,
    "oasst2": 1_300,
    "openthoughts": 670,
    "wikipedia": 1_130,
    "ultrafeedback": 1_720,
    "ultrachat": 600,
    "lmsys": 660,
    "arena": 480,
    "dailydialog": 330,
    "bst": 890,
    "openr1_math": 620,
    "general_thought": 400,
    "nemotron": 270,
    CORPUS: 810,
}
"""What each takes on disk, known because it is the same every time."""
MESSAGES = {"oasst2": 3_039}
"""Rows of the sources whose rows are messages of a tree."""
CORPUS_TEXT_KILOBYTES = 2_820
"""UTF-8 bytes of the corpus."""


def stated_rows(name: str) -> int | None:
    """How many rows the sample of a source has; None if there is no sample of that name."""
    if name == CORPUS:
        return CORPUS_FILES * CORPUS_ROWS
    return MESSAGES.get(name) or (GENERATORS[name][1] if name in GENERATORS else None)


def make_source(name: str, folder: Path, columns: Columns) -> saved.Saved:
    """Make the sample of one source and save it; an existing folder is replaced at the end.

    ``ValueError`` if there is no sample of that name.
    """
    import datasets

    if name not in GENERATORS:
        raise ValueError(f"no sample of {name!r}; there are {', '.join(GENERATORS)}")
    features = datasets.Features.from_arrow_schema(SCHEMAS[name])
    tables = _tables(rows_of(name), features.arrow_schema)
    return saved.save(
        folder, tables, features, columns=columns, origin=origin(name), replace=folder.exists()
    )


def rows_of(name: str) -> Iterator[dict[str, Any]]:
    """The rows of one sampled source."""
    generate, count = GENERATORS[name]
    return generate(Voice(SEED, _stream(name)), count)


def origin(name: str) -> dict[str, Any]:
    """What the manifest of a sampled source says about where it comes from."""
    return {
        "path": f"sample/{name}",
        "revision": f"sample-{SAMPLE_VERSION}",
        "licence": "invented for this project",
        "limit": -1,
        "seed": SEED,
    }


def make_corpus(folder: Path) -> list[Path]:
    """A folder of plain-text parquet files for shard preparation, made once; the files.

    Some documents are null, blank or repeated, and columns other than ``text`` are there too.
    """
    files = [folder / f"part-{number:02d}.parquet" for number in range(CORPUS_FILES)]
    if folder.exists():
        _check_corpus(folder, files)
        return files
    staging = folder.with_name(folder.name + ".incomplete")
    folders.make_folder(staging)
    with FolderLock(staging / "lock"):
        payload = staging / "payload"
        folders.remove_tree(payload)
        folders.make_folder(payload)
        voice = Voice(SEED, _stream(CORPUS))
        sizes = {file.name: _write_part(payload / file.name, voice) for file in files}
        atomic.save_json(payload / saved.MANIFEST, {"sample": SAMPLE_VERSION, "sizes": sizes})
        folders.publish_folder(payload, folder)
        folders.remove_tree(staging)
    return files


def _check_corpus(folder: Path, files: Iterable[Path]) -> None:
    manifest = folder / saved.MANIFEST
    said = atomic.load_json(manifest) if manifest.is_file() else {}
    sizes = {file.name: file.stat().st_size for file in files if file.is_file()}
    if said != {"sample": SAMPLE_VERSION, "sizes": sizes}:
        raise DamagedFile(
            f"{folder} does not hold the corpus of this version of the sample: its manifest and "
            "files differ. Remove the folder and run the same command again"
        )


def _write_part(path: Path, voice: Voice) -> int:
    rows = list(islice(_documents(voice), CORPUS_ROWS))
    table = pa.table(
        {
            "id": pa.array([f"{path.stem}-{number}" for number in range(len(rows))]),
            "text": pa.array(rows, pa.string()),
            "score": pa.array([voice.between(0, 50) / 10 for _ in rows]),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=150)
    return atomic.write_new(path, [sink.getvalue()]).size


def _documents(voice: Voice) -> Iterator[str | None]:
    again = "The ferry leaves at nine.\n"
    while True:
        topic = voice.topic()
        text: str | None = "\n\n".join(voice.paragraph(topic) for _ in range(voice.between(1, 6)))
        if voice.one_in(12):
            _, question, answer = voice.pick(FOREIGN)
            text = f"{question}\n{answer}"
        elif voice.one_in(20):
            text = voice.pick((None, "", "  \n\t", again, again, f"<|endoftext|> {text}"))
        elif voice.one_in(200):
            text = "\n\n".join(voice.paragraph(topic, 4, 8) for _ in range(60))
        yield text


def _stream(name: str) -> int:
    return int(digest.sha256_bytes(f"sample {name}".encode())[:12], 16)


def _tables(rows: Iterator[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.Table]:
    while piece := list(islice(rows, _PIECE)):
        yield pa.Table.from_pylist(piece, schema=schema)
