"""A run in a few lines for people: before it begins (the dry run), and when it has ended.

Nothing large is transferred for them, and nothing is written.
"""

import shutil
from pathlib import Path
from typing import TypedDict

from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.pinned import Pinned
from pipeline_lib.corpus.recipe import Recipe, RecipeFields
from pipeline_lib.records import TokenizerMetadata

_EXPANSION = 4
"""Bytes of text for a byte of compressed Parquet: about two to four, so the estimate errs
upwards."""
_BYTES_PER_TOKEN = 2.5
"""Low estimate of UTF-8 bytes for a token, so that the estimate of the disk errs upwards."""
_MEMORY_BESIDE_BUFFERS = 512 << 20


class Description(TypedDict):
    """A run before it begins. Sizes are in bytes; estimates are rounded up.

    ``rows``: in the source, None where the Hub would have to be asked for many files.
    ``dtype``: of the tokens. ``disk_bytes_free``: on the disk of the output folder.
    """

    recipe: RecipeFields
    recipe_digest: str
    files: int
    source_bytes: int
    rows: int | None
    tokenizer: TokenizerMetadata
    dtype: str
    tokens_at_most_about: int
    train_shards_at_most_about: int
    disk_bytes_at_most_about: int
    disk_bytes_free: int
    memory_bytes_at_most_about: int


def describe(pinned: Pinned, output_dir: Path) -> Description:
    """What ``prepare`` would do with a pinned recipe and an output folder."""
    recipe, source, tokenizer = pinned.recipe, pinned.source, pinned.tokenizer
    size = sum(file["size"] for file in source.files)
    rows = source.rows()
    tokens = recipe.train_tokens or _tokens_bound(size, rows, recipe)
    buffer = min(recipe.shuffle_buffer_bytes, _EXPANSION * size)
    return Description(
        recipe=recipe.fields(),
        recipe_digest=recipe.digest,
        files=len(source.files),
        source_bytes=size,
        rows=rows,
        tokenizer=tokenizer.metadata(),
        dtype=tokenizer.dtype.str,
        tokens_at_most_about=tokens,
        train_shards_at_most_about=-(-tokens // recipe.shard_tokens),
        disk_bytes_at_most_about=tokens * tokenizer.dtype.itemsize + 2 * buffer,
        disk_bytes_free=_free(output_dir),
        memory_bytes_at_most_about=2 * buffer + _MEMORY_BESIDE_BUFFERS,
    )


def _tokens_bound(size: int, rows: int | None, recipe: Recipe) -> int:
    text = _EXPANSION * size
    if rows and recipe.max_documents:
        text = int(text * min(1.0, recipe.max_documents / rows))
    return int(text / _BYTES_PER_TOKEN)


def _free(output_dir: Path) -> int:
    folder = output_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def summary(metadata: Manifest, output: Path) -> str:
    """One line: documents and tokens, time, rate, digest, the bound that ended the run, folder."""
    counts, measured = metadata["counts"], metadata["measured"]
    bound = metadata["recipe"]["max_documents"]
    ended = "the source ended it"
    if metadata["train_token_target_reached"]:
        ended = f"--train-tokens {metadata['recipe']['train_tokens']:,} ended it"
    elif counts["rows_visited"] == bound:
        ended = f"--max-documents {bound:,} ended it"
    return (
        f"train {counts['train_documents']:,} documents, {counts['train_tokens']:,} tokens; "
        f"val {counts['val_documents']:,} documents, {counts['val_tokens']:,} tokens; "
        f"{measured['elapsed_seconds']:.1f} s, {measured['total_tokens_per_second']:,} tokens/s; "
        f"content {metadata['content_sha256'][:12]}; {ended}; {output}"
    )
