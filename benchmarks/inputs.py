"""What a benchmark runs on: corpus, tokenizer, peers. What is missing is made once."""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle
from pathlib import Path

import corpus
import given
import measure
import pyarrow.parquet as pq
from cache import HERE, PROJECT, made_once, peers, scratch

from pipeline_lib import load_tokenizer

DOCUMENT_IDS, CONVERSATION_IDS = 50_257, 32_000
"""Sizes of the two tokenizers: GPT-2's for documents, another one for conversations."""
TIMES = 10
"""Length of the long corpus, in corpora."""
SLOW_FILES = 2
"""Files of the corpus that slow tools get."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of every benchmark.

    ``corpus`` is a folder of parquet files whose texts are in ``column``; ``tokenizer`` is the
    folder of a ``tokenizer.json``; every way is measured ``repeat`` times; ``peers`` is the folder
    that the peers are installed in, ``None`` to leave them out.
    """

    corpus: Path
    column: str
    tokenizer: Path
    repeat: int
    peers: Path | None

    @cached_property
    def files(self) -> list[Path]:
        """The parquet files in name order."""
        return given.files(self.corpus)

    @cached_property
    def rows(self) -> int:
        """Documents in the corpus."""
        return sum(pq.read_metadata(path).num_rows for path in self.files)

    @cached_property
    def end_id(self) -> int:
        """Id of the token that ends a document."""
        return load_tokenizer(self.tokenizer).eos_id

    def texts(self) -> Iterator[str]:
        """All texts, again from the first one when they end."""
        for path in cycle(self.files):
            yield from given.texts(path, self.column)

    def first_files(self) -> "Inputs":
        """The same inputs with the part of the corpus that slow tools get."""
        folder = scratch("first-files")
        folder.mkdir()
        for path in self.files[:SLOW_FILES]:
            (folder / path.name).symlink_to(path.resolve())
        return dataclasses.replace(self, corpus=folder)

    def repeated(self, times: int) -> "Inputs":
        """The same inputs with the corpus several times over."""
        longer = corpus.repeated(self.corpus, self.column, times)
        return dataclasses.replace(self, corpus=longer)

    def prepare(self, *, output: Path, **more: object) -> measure.Command:
        """The project's own command over the whole corpus."""
        options = {"output_dir": output, "dataset": self.corpus, "text_column": self.column}
        options |= {"max_documents": self.rows, "tokenizer": self.tokenizer, **more}
        named = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        return sys.executable, "-m", "pipeline_lib.prepare_data", *named

    def program(self, name: str, *, peer: bool = False, **more: object) -> measure.Command:
        """One of ``programs/``; its only argument is a JSON object of the inputs and ``more``."""
        own = {"corpus": self.corpus, "column": self.column, "tokenizer": self.tokenizer}
        path = [self.peers, PROJECT, HERE] if peer and self.peers else [PROJECT, HERE]
        python = ("env", f"PYTHONPATH={os.pathsep.join(map(str, path))}", sys.executable)
        return *python, HERE / "programs" / f"{name}.py", json.dumps(own | more, default=str)

    def trained(self, ids: int) -> Path:
        """The folder of a byte-level BPE that is trained on about 30 MB of the corpus."""
        train = partial(self.program, "bpe_train", trainer="ours", bytes=30_000_000, ids=ids)
        name = f"tokenizer-{ids}-{corpus.label(self.corpus)}"
        return made_once(name, lambda folder: measure.run(train(output=folder)))


def resolve(options: argparse.Namespace) -> Inputs:
    """The inputs that the options name; what is missing is made."""
    inputs = Inputs(
        corpus=(options.corpus or corpus.real_text()).resolve(),
        column=options.text_column if options.corpus else "text",
        tokenizer=(options.tokenizer or Path()).resolve(),
        repeat=options.repeat,
        peers=None if options.no_peers else peers(),
    )
    trained = inputs.tokenizer if options.tokenizer else inputs.trained(DOCUMENT_IDS)
    return dataclasses.replace(inputs, tokenizer=trained)
