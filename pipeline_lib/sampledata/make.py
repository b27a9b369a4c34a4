"""The offline sample: every data set in its exact schema, and a plain-text corpus, no network.

It is saved by the code that saves downloads, so the later stages can not tell the difference. It
has the same bytes every time: all text follows from one seed, and files hold no time and no path.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pipeline_lib.columns import Columns
from pipeline_lib.downloads import saved
from pipeline_lib.downloads.outcomes import Outcome, Status, attempt, of_saved
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.errors import SourceError
from pipeline_lib.records import DataRow
from pipeline_lib.sampledata import (
    corpus_files,
    dialogues,
    documents,
    preferences,
    reasoning,
    trees,
)
from pipeline_lib.sampledata.corpus_files import CORPUS, CORPUS_FILES, CORPUS_ROWS
from pipeline_lib.sampledata.prose import SAMPLE_VERSION, SEED, Voice, stream_of
from pipeline_lib.sampledata.schemas import SCHEMAS

_PIECE = 500


class Sampled(NamedTuple):
    """One data set of the sample: its generator, its rows (of oasst2: trees), kilobytes on disk."""

    generate: Callable[[Voice, int], Iterator[DataRow]]
    rows: int
    kilobytes: int


SAMPLED = {
    "wildchat": Sampled(dialogues.wildchat, 1_600, 2_770),
    "soda": Sampled(dialogues.soda, 2_000, 1_280),
    "oasst2": Sampled(trees.oasst2, 500, 1_300),
    "openthoughts": Sampled(reasoning.openthoughts, 900, 670),
    "wikipedia": Sampled(documents.wikipedia, 700, 1_130),
    "ultrafeedback": Sampled(preferences.ultrafeedback, 900, 1_720),
    "ultrachat": Sampled(dialogues.ultrachat, 800, 600),
    "lmsys": Sampled(dialogues.lmsys, 700, 660),
    "arena": Sampled(preferences.arena, 600, 480),
    "dailydialog": Sampled(dialogues.dailydialog, 600, 330),
    "bst": Sampled(dialogues.bst, 500, 890),
    "openr1_math": Sampled(reasoning.openr1_math, 700, 620),
    "general_thought": Sampled(reasoning.general_thought, 700, 400),
    "nemotron": Sampled(reasoning.nemotron, 600, 270),
}


def make_all(specs: Mapping[str, DatasetSpec], data_dir: Path) -> list[Outcome]:
    """Make the sample of each data set and then the corpus, unless they are there already."""
    outcomes = [
        attempt(name, partial(_make_if_needed, name, spec, data_dir))
        for name, spec in specs.items()
    ]
    return [*outcomes, attempt(CORPUS, partial(_corpus_outcome, data_dir / CORPUS))]


def _make_if_needed(name: str, spec: DatasetSpec, data_dir: Path) -> Outcome:
    folder = data_dir / name
    with contextlib.suppress(saved.NotSaved):
        there = saved.find(folder)
        if there.origin == origin(name):
            saved.load(folder, spec.columns)
            return of_saved(name, Status.THERE, there)
        if not str(there.origin.get("path")).startswith("sample/"):
            raise SourceError(
                f"{folder} holds a download of {there.origin.get('path')}; the sample goes to "
                "another folder, choose it with --data-dir"
            )
    return of_saved(name, Status.DONE, make_source(name, folder, spec.columns))


def make_source(name: str, folder: Path, columns: Columns) -> saved.Saved:
    """Make the sample of one data set and save it; an existing folder is replaced at the end.

    ``ValueError`` if there is no sample of that name.
    """
    import datasets

    if name not in SAMPLED:
        raise ValueError(f"no sample of {name!r}; there are {', '.join(SAMPLED)}")
    features = datasets.Features.from_arrow_schema(SCHEMAS[name])
    tables = _tables(rows_of(name), features.arrow_schema)
    return saved.save(
        folder, tables, features, columns=columns, origin=origin(name), replace=folder.exists()
    )


def rows_of(name: str) -> Iterator[DataRow]:
    """The rows of one sampled data set."""
    sampled = SAMPLED[name]
    return sampled.generate(Voice(SEED, stream_of(name)), sampled.rows)


def origin(name: str) -> saved.Origin:
    """The record of where the rows of a sampled data set come from."""
    return {
        "path": f"sample/{name}",
        "revision": f"sample-{SAMPLE_VERSION}",
        "licence": "invented for this project",
        "limit": -1,
        "seed": SEED,
    }


def _corpus_outcome(folder: Path) -> Outcome:
    status = Status.THERE if corpus_files.is_there(folder) else Status.DONE
    size = sum(file.stat().st_size for file in corpus_files.make_corpus(folder))
    return Outcome(CORPUS, status, CORPUS_FILES * CORPUS_ROWS, size)


def _tables(rows: Iterator[DataRow], schema: pa.Schema) -> Iterator[pa.Table]:
    while piece := list(islice(rows, _PIECE)):
        yield pa.Table.from_pylist(piece, schema=schema)
