"""Re-check a published folder: hashes, sums, id range, end tokens, and text at the source."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import selection
from pipeline_lib.errors import DamagedFile, PipelineError
from pipeline_lib.preparing import manifest
from pipeline_lib.preparing.staging import MANIFEST
from pipeline_lib.preparing.visits import is_blank
from pipeline_lib.shards import SPLITS, check_shard
from pipeline_lib.sources import Source, parquet_texts
from pipeline_lib.tokenizer import Tokenizer

SAMPLED_DOCUMENTS = 64


def verify(folder: Path, on_shard: Callable[[str], None] = lambda name: None) -> list[str]:
    """First fault of each kind, as one line each; an empty list means that all is well.

    Re-hashes every shard and checks headers, sizes, sums, stray files, the id range and that
    there are as many end tokens as documents. Memory does not grow with the folder.
    """
    try:
        found = manifest.load(folder)
    except (FileNotFoundError, NotADirectoryError):
        return [f"{folder} has no {MANIFEST}, so it is not a published folder"]
    except DamagedFile as error:
        return [str(error)]
    faults: dict[str, str] = {}
    for split in SPLITS:
        _verify_split(folder, found, split, faults, on_shard)
    named = {shard["file"] for split in SPLITS for shard in found["shards"][split]}
    for path in sorted(folder.iterdir()):
        if path.name not in named | {MANIFEST}:
            faults.setdefault("stray", f"{path} is not named by the manifest; move it away")
    return list(faults.values())


def _verify_split(
    folder: Path,
    found: dict[str, Any],
    split: str,
    faults: dict[str, str],
    on_shard: Callable[[str], None],
) -> None:
    dtype = manifest.dtype_of(found)
    tokens = ends = 0
    for shard in found["shards"][split]:
        on_shard(shard["file"])
        try:
            check_shard(folder / shard["file"], shard, dtype)
        except DamagedFile as error:
            faults.setdefault("shard", str(error))
            continue
        ids = np.load(folder / shard["file"], mmap_mode="r")
        tokens += len(ids)
        ends += _count_ends(ids, found["tokenizer"], folder / shard["file"], faults)
    counts = found["counts"]
    if "shard" not in faults and tokens != counts[f"{split}_tokens"]:
        faults.setdefault(
            "sum", f"{split}: shards hold {tokens:,} tokens, {counts[f'{split}_tokens']:,} recorded"
        )
    if "shard" not in faults and ends != counts[f"{split}_documents"]:
        faults.setdefault(
            "end tokens",
            f"{split}: {ends:,} end tokens for {counts[f'{split}_documents']:,} documents",
        )


def _count_ends(
    ids: NDArray[Any], tokenizer: dict[str, Any], path: Path, faults: dict[str, str]
) -> int:
    ends = 0
    for start in range(0, len(ids), 1 << 22):
        block = ids[start : start + (1 << 22)]
        if int(block.max()) >= tokenizer["vocab_size"]:
            faults.setdefault(
                "id range", f"{path}: id {int(block.max())} is not below {tokenizer['vocab_size']}"
            )
        ends += int((block == tokenizer["eos_id"]).sum())
    return ends


def verify_against_source(folder: Path, source: Source, tokenizer: Tokenizer) -> list[str]:
    """Decode sampled documents and look for their text among the source's rows.

    The sample is the first documents of each split's first shard. Texts are compared by
    identity, so one pass over the source suffices.
    """
    found = manifest.load(folder)
    recipe = found["recipe"]
    if source.revision != recipe["revision"]:
        return [f"the source is {source.revision}, the folder was made from {recipe['revision']}"]
    if tokenizer.sha256 != found["tokenizer"]["sha256"]:
        return [f"the tokenizer is {tokenizer.sha256}, not {found['tokenizer']['sha256']}"]
    wanted = dict(_sampled(folder, found, tokenizer))
    for text in _source_texts(source, found):
        wanted.pop(text, None)
        if not wanted:
            return []
    missing = next(iter(wanted.items()))
    return [f"{missing[1]}: its text {missing[0][:60]!r} is not a row of the source"]


def _source_texts(source: Source, found: dict[str, Any]) -> Iterator[bytes]:
    for name in found["source"]["files"]:
        for _, rows in parquet_texts(source.path(name), found["recipe"]["text_column"]):
            yield from (row for row in rows if row is not None and not is_blank(row))


def _sampled(
    folder: Path, found: dict[str, Any], tokenizer: Tokenizer
) -> Iterator[tuple[bytes, str]]:
    threshold = selection.val_threshold(found["recipe"]["val_fraction"])
    prefix = selection.identity_prefix(found["recipe"]["seed"])
    for split in SPLITS:
        first = found["shards"][split][0]["file"]
        ids = np.load(folder / first, mmap_mode="r")[: 1 << 20]
        ends = np.flatnonzero(ids == tokenizer.eos_id)[:SAMPLED_DOCUMENTS]
        start = 0
        for number, end in enumerate(ends.tolist()):
            text = tokenizer.decode(ids[start:end].tolist()).encode()
            start = end + 1
            if selection.side(selection.identity(prefix, text), threshold) != split:
                raise PipelineError(
                    f"{folder / first}: document {number} decodes to a text of the other split, "
                    "so the shard does not hold what the manifest says"
                )
            yield text, f"{first}, document {number}"
