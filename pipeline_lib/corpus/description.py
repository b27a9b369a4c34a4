"""A run in a few lines for people: before it begins (the dry run), and when it has ended.

Nothing large is transferred for them, and nothing is written.
"""

import shutil
from pathlib import Path
from typing import TypedDict

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.bounds import ending, forecast, rows_to_visit
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.pinned import Pinned
from pipeline_lib.corpus.reader import rows_of_lanes
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
    ``visits``: how many of them the bounds and the lanes let it visit, in words.
    ``dtype``: of the tokens. ``disk_bytes_free``: on the disk of the output folder.
    """

    recipe: RecipeFields
    recipe_digest: str
    files: int
    source_bytes: int
    rows: int | None
    visits: str
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
    by_file = source.rows_by_file()
    rows = None if by_file is None else sum(by_file.values())
    by_lane = rows_of_lanes(source, recipe, by_file)
    tokens = recipe.train_tokens or _tokens_bound(size, rows, rows_to_visit(recipe, by_lane))
    buffer = min(recipe.shuffle_buffer_bytes, _EXPANSION * size)
    return Description(
        recipe=recipe.fields(),
        recipe_digest=recipe.digest,
        files=len(source.files),
        source_bytes=size,
        rows=rows,
        visits=forecast(recipe, by_lane),
        tokenizer=tokenizer.metadata(),
        dtype=tokenizer.dtype.str,
        tokens_at_most_about=tokens,
        train_shards_at_most_about=-(-tokens // recipe.shard_tokens),
        disk_bytes_at_most_about=tokens * tokenizer.dtype.itemsize + 2 * buffer,
        disk_bytes_free=_free(output_dir),
        memory_bytes_at_most_about=2 * buffer + _MEMORY_BESIDE_BUFFERS,
    )


def _tokens_bound(size: int, rows: int | None, visited: int | None) -> int:
    text = _EXPANSION * size
    if rows and visited is not None:
        text = int(text * visited / rows)
    return int(text / _BYTES_PER_TOKEN)


def _free(output_dir: Path) -> int:
    folder = output_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def summary(metadata: Manifest, output: Path, *, bound_given: bool = False) -> str:
    """One line: documents and tokens, rows left out, time, rate, digest, the bound that ended the
    run, folder. ``bound_given``: whether its bound on rows was given, and is no default."""
    counts, measured = metadata["counts"], metadata["measured"]
    ended = f"{counts['rows_visited']:,} rows visited"
    if not manifest.is_first(metadata):
        recipe = Recipe.from_fields(metadata["recipe"])
        ended = ending(recipe, metadata["lanes"], given=bound_given)
    return (
        f"train {counts['train_documents']:,} documents, {counts['train_tokens']:,} tokens; "
        f"val {counts['val_documents']:,} documents, {counts['val_tokens']:,} tokens; "
        f"{left_out(metadata)}; "
        f"{measured['elapsed_seconds']:.1f} s, {measured['total_tokens_per_second']:,} tokens/s; "
        f"content {metadata['content_sha256'][:12]}; {ended}; {output}"
    )


def left_out(metadata: Manifest) -> str:
    """The rows that became no document, by reason: ``left out 3 null, 1 blank``."""
    behind = metadata["counts"]["prefetched_documents_not_written"]
    reasons = {**manifest.rows_left_out(metadata), "behind the bound": behind}
    found = [f"{rows:,} {reason}" for reason, rows in reasons.items() if rows]
    return f"left out {', '.join(found) or 'no row'}{_lost(metadata)}"


def _lost(metadata: Manifest) -> str:
    if manifest.is_first(metadata):
        return ""
    measured, unknown = metadata["measured"], metadata["unknown_tokens"]
    said = f"; {unknown:,} unknown tokens" if unknown else ""
    if lost := measured["decoded_with_loss"]:
        said += f"; text lost in {lost:,} of {measured['decoded_again']:,} documents decoded again"
    return said
