"""A recipe made exact: every name that may move is resolved before anything is read.

``pin`` turns branches into commit ids, folders into digests, and the end token into the one that
the tokenizer has, so that the recipe alone decides the bytes.
"""

import dataclasses
import functools
import importlib.metadata
import sys
from dataclasses import dataclass
from pathlib import Path

from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.state import Locations
from pipeline_lib.errors import SourceError
from pipeline_lib.records import FOLDER, LOCAL
from pipeline_lib.sources.corpus_source import CorpusSource
from pipeline_lib.sources.resolve import check_text_columns, resolve_parquet_files
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer

PACKAGES = ("huggingface-hub", "numpy", "pyarrow", "tokenizers")


@dataclass(frozen=True)
class Pinned:
    """A pinned recipe with its open source and tokenizer, and where those were found."""

    recipe: Recipe
    source: CorpusSource
    tokenizer: Tokenizer
    locations: Locations


def pin(recipe: Recipe, locations: Locations | None = None) -> Pinned:
    """Resolve source and tokenizer, and check the text column of local files.

    ``locations`` says where a recipe that is pinned already finds its folder and its file.
    """
    dataset, tokenizer_place = recipe.dataset, recipe.tokenizer
    if locations is not None:
        dataset = _found(recipe.dataset, FOLDER, "dataset", locations["dataset"])
        tokenizer_place = _found(recipe.tokenizer, LOCAL, "tokenizer", locations["tokenizer"])
    tokenizer = load_tokenizer(
        tokenizer_place, revision=recipe.tokenizer_revision, eos_token=recipe.eos_token
    )
    source = resolve_parquet_files(dataset, recipe.config, recipe.revision)
    if recipe.lanes > len(source.files):
        raise SourceError(
            f"lanes is {recipe.lanes} but the source has {len(source.files)} files; a lane needs "
            "a file of its own, so choose fewer lanes"
        )
    check_text_columns(source, recipe.text_column)
    exact = dataclasses.replace(
        recipe,
        dataset=source.dataset,
        config=source.config,
        revision=source.revision,
        tokenizer=tokenizer.repository,
        tokenizer_revision=tokenizer.revision,
        eos_token=tokenizer.eos_token,
    )
    is_local = tokenizer.repository == LOCAL
    here = str(Path(tokenizer_place).resolve()) if is_local else tokenizer_place
    return Pinned(exact, source, tokenizer, Locations(dataset=source.location, tokenizer=here))


def _found(named: str, word: str, thing: str, recorded: str) -> str:
    """Where a thing is: at its recorded place if the recipe only says ``word``, else as it is
    named.

    ``SourceError`` if it was at the recorded place and is gone.
    """
    place = recorded if named == word else named
    if place == recorded and Path(place).is_absolute() and not Path(place).exists():
        raise SourceError(
            f"the run read its {thing} from {place}, which is gone; bring it back, or give its "
            f"new place with --{thing}"
        )
    return place


_version = functools.cache(importlib.metadata.version)  # asked at every commit, slow to read


def versions() -> dict[str, str]:
    """Name -> version of each package that may change how rows are read or text becomes ids."""
    found = {name: _version(name) for name in PACKAGES}
    return {"python": ".".join(map(str, sys.version_info[:2])), **found}
