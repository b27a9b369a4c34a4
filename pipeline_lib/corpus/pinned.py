"""A recipe made exact: every moving name resolved before anything is read.

``pin`` turns branches into commit ids, folders into digests and an end token into the one
the tokenizer has, so that the recipe alone decides the bytes. ``describe`` is the dry run.
"""

import dataclasses
import functools
import importlib.metadata
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.errors import SourceError
from pipeline_lib.records import FOLDER, LOCAL
from pipeline_lib.sources.resolve import CorpusSource, check_columns, resolve_parquet_files
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer

PACKAGES = ("huggingface-hub", "numpy", "pyarrow", "tokenizers")
_BYTES_PER_TOKEN = 2.5
"""Low estimate for UTF-8 bytes per token, so that the disk estimate errs upwards."""


@dataclass(frozen=True)
class Pinned:
    """A pinned recipe with its open source and tokenizer; ``locations`` are no identity."""

    recipe: Recipe
    source: CorpusSource
    tokenizer: Tokenizer
    locations: Mapping[str, str]


def pin(recipe: Recipe, locations: Mapping[str, str] | None = None) -> Pinned:
    """Resolve source and tokenizer; the text column of local files is checked too.

    ``locations`` tells where a recipe that is already pinned finds its folder and file.
    """
    known = dict(locations or {})
    dataset = known.get("dataset", recipe.dataset) if recipe.dataset == FOLDER else recipe.dataset
    where = known.get("tokenizer", LOCAL) if recipe.tokenizer == LOCAL else recipe.tokenizer
    for thing, place in known.items():
        if (dataset if thing == "dataset" else where) == place and Path(place).is_absolute():
            _require(thing, place)
    tokenizer = load_tokenizer(
        where, revision=recipe.tokenizer_revision, eos_token=recipe.eos_token
    )
    source = resolve_parquet_files(dataset, recipe.config, recipe.revision)
    if recipe.lanes > len(source.files):
        raise SourceError(
            f"lanes is {recipe.lanes} but the source has {len(source.files)} files; a lane needs "
            "a file of its own, so choose fewer lanes"
        )
    check_columns(source, recipe.text_column)
    exact = dataclasses.replace(
        recipe,
        dataset=source.dataset,
        config=source.config,
        revision=source.revision,
        tokenizer=tokenizer.repository,
        tokenizer_revision=tokenizer.revision,
        eos_token=tokenizer.eos_token,
    )
    here = str(Path(where).resolve()) if tokenizer.repository == LOCAL else where
    return Pinned(exact, source, tokenizer, {"dataset": source.location, "tokenizer": here})


def _require(thing: str, place: str) -> None:
    if not Path(place).exists():
        raise SourceError(
            f"the run read its {thing} from {place}, which is gone; bring it back, or give its "
            f"new place with --{thing}"
        )


def pin_names(recipe: Recipe, recorded: Recipe) -> Recipe:
    """Resolve only the names that are not already those of a recorded recipe, and not the
    words that stand for a folder and a file there: those lead nowhere."""
    pins: dict[str, Any] = {}
    named = (recipe.dataset, recipe.revision or recorded.revision)
    if recipe.dataset == FOLDER or named == (recorded.dataset, recorded.revision):
        pins["revision"] = named[1]
    else:
        source = resolve_parquet_files(recipe.dataset, recipe.config, recipe.revision)
        pins |= {"dataset": source.dataset, "revision": source.revision}
    named = (recipe.tokenizer, recipe.tokenizer_revision or recorded.tokenizer_revision)
    if recipe.tokenizer == LOCAL or named == (recorded.tokenizer, recorded.tokenizer_revision):
        pins["tokenizer_revision"] = named[1]
    else:
        tokenizer = load_tokenizer(recipe.tokenizer, revision=recipe.tokenizer_revision)
        pins |= {"tokenizer": tokenizer.repository, "tokenizer_revision": tokenizer.revision}
    return dataclasses.replace(recipe, eos_token=recipe.eos_token or recorded.eos_token, **pins)


_version = functools.cache(importlib.metadata.version)  # asked at every commit, slow to read


def versions() -> dict[str, str]:
    """Versions that may change what is read or how text becomes ids."""
    found = {name: _version(name) for name in PACKAGES}
    return {"python": ".".join(map(str, sys.version_info[:2])), **found}


def describe(pinned: Pinned, output_dir: Path) -> dict[str, Any]:
    """What a run would do, without a large transfer and without writing anything.

    Sizes in bytes, estimates rounded up; ``rows`` is ``None`` where the Hub does not tell.
    """
    recipe, source, tokenizer = pinned.recipe, pinned.source, pinned.tokenizer
    size = sum(file["size"] for file in source.files)
    rows = source.rows()
    tokens = recipe.train_tokens or _tokens_bound(size, rows, recipe)
    folder = output_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    return {
        "recipe": recipe.fields(),
        "recipe_digest": recipe.digest,
        "files": len(source.files),
        "source_bytes": size,
        "rows": rows,
        "tokenizer": tokenizer.metadata(),
        "dtype": tokenizer.dtype.str,
        "tokens_at_most_about": tokens,
        "train_shards_at_most_about": -(-tokens // recipe.shard_tokens),
        "disk_bytes_at_most_about": tokens * tokenizer.dtype.itemsize + 2 * _buffer(recipe, size),
        "disk_bytes_free": shutil.disk_usage(folder).free,
        "memory_bytes_at_most_about": 2 * _buffer(recipe, size) + (512 << 20),
    }


def _tokens_bound(size: int, rows: int | None, recipe: Recipe) -> int:
    text = 4 * size  # compressed text expands about two- to fourfold
    if rows and recipe.max_documents:
        text = int(text * min(1.0, recipe.max_documents / rows))
    return int(text / _BYTES_PER_TOKEN)


def _buffer(recipe: Recipe, size: int) -> int:
    return min(recipe.shuffle_buffer_bytes, 4 * size)
