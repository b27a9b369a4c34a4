"""Re-check a published folder: its manifest, every byte of its shards, and stray files."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest
from pipeline_lib.corpus import manifest, staging
from pipeline_lib.corpus.layout import MANIFEST, shard_name
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.shards import check_shard
from pipeline_lib.corpus.state import SPLITS
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import ShardRecord
from pipeline_lib.selection import Split
from pipeline_lib.storage import atomic

Faults = dict[str, str]
"""Kind of fault -> the first fault of that kind."""
_BLOCK = 1 << 22
_FOLLOWS = {
    "shard": ("end tokens", "border", "last"),
    "name": ("sum", "end tokens", "border", "last"),
    "end tokens": ("border", "last"),
}
"""A kind of fault -> the kinds that it causes, which would only say the same again."""
_LOG = logging.getLogger(__name__)


def verify(folder: Path, on_shard: Callable[[str], None] = lambda name: None) -> list[str]:
    """The first fault of each kind, one line each; an empty list means that all is well.

    Of the manifest its digests, types, spelling and sums are checked. Every shard is hashed; its
    name, size, header, range of ids and document borders are checked, and that there are as many
    end tokens as documents. Stray files are faults, but files that operating systems leave in
    folders only give a warning in the log. ``on_shard`` is called with the name of each shard
    before it is read. Memory does not grow with the folder.
    """
    try:
        found = manifest.load(folder)
    except (FileNotFoundError, NotADirectoryError):
        return [f"{folder} has no {MANIFEST}, so it is not a published folder"]
    except DamagedFile as error:
        return [str(error)]
    faults: Faults = {}
    check_manifest(folder / MANIFEST, found, faults)
    for split in SPLITS:
        for kind, fault in check_split(folder, found, split, on_shard).items():
            faults.setdefault(kind, fault)
    check_strays(folder, found, faults)
    return list(faults.values())


def check_manifest(path: Path, found: Manifest, faults: Faults) -> None:
    """Add what is wrong with a manifest as far as it can be seen in the manifest itself."""
    if path.read_bytes() != atomic.json_bytes(found):
        faults["spelling"] = (
            f"{path} has the right content but is not spelled as it was written (spaces, line ends "
            "or repeated names); restore it from a copy"
        )
    if found["recipe_digest"] != digest.of_json(found["recipe"]):
        faults["recipe"] = f"{path}: recipe_digest is not the digest of the recipe"
    visited, rows = found["counts"]["rows_visited"], manifest.rows_accounted_for(found)
    if rows != visited:
        faults["rows"] = f"{path}: {visited:,} rows were visited, {rows:,} are accounted for"
    reasons = manifest.rows_left_out(found)
    skipped = {
        manifest.NULL: found["counts"]["skipped_null"],
        manifest.BLANK: found["counts"]["skipped_blank"],
    }
    for reason, count in skipped.items():
        if count != reasons.get(reason):
            faults["rows"] = f"{path}: {count:,} rows skipped as {reason} in its counts, not " + (
                f"{reasons.get(reason, 0):,}, which it lists as left out"
            )
    if not manifest.is_first(found):
        _check_ends(path, found, faults)


def _check_ends(path: Path, found: Manifest, faults: Faults) -> None:
    ends, counts = found["lanes"], found["counts"]
    rows = sum(end["rows_visited"] for end in ends)
    tokens = sum(end["train_tokens"] for end in ends)
    recorded = (found["recipe"]["lanes"], counts["rows_visited"], counts["train_tokens"])
    if (len(ends), rows, tokens) != recorded:
        faults["lanes"] = f"{path}: the ends of its lanes do not add up to its counts"


def check_strays(folder: Path, found: Manifest, faults: Faults) -> None:
    """Add the first file in the folder that its manifest does not name."""
    named = {shard["file"] for split in SPLITS for shard in found["shards"][split]}
    for path in sorted(folder.iterdir()):
        if staging.is_os_file(path.name):
            _LOG.warning("%s was left there by an operating system; it may be removed", path)
        elif path.name not in named | {MANIFEST}:
            faults.setdefault("stray", f"{path} is not named by the manifest; move it away")


def check_split(
    folder: Path, found: Manifest, split: Split, on_shard: Callable[[str], None]
) -> Faults:
    """The first fault of each kind in the shards of one split."""
    faults: Faults = {}
    lanes = shards_by_lane(found, split)
    _check_records(lanes, found, split, faults)
    ends = sum(_check_lane(folder, lane, found, faults, on_shard) for lane in lanes)
    tokens = sum(shard["tokens"] for lane in lanes for shard in lane)
    recorded = manifest.counts_of_splits(found["counts"])[split]
    if tokens != recorded.tokens:
        faults["sum"] = f"{split}: shards hold {tokens:,} tokens, {recorded.tokens:,} recorded"
    if ends != recorded.documents:
        faults["end tokens"] = f"{split}: {ends:,} end tokens for {recorded.documents:,} documents"
    for cause, effects in _FOLLOWS.items():
        if cause in faults:
            faults = {kind: fault for kind, fault in faults.items() if kind not in effects}
    return faults


def shards_by_lane(found: Manifest, split: Split) -> list[list[ShardRecord]]:
    """The shards of a split, lane by lane, up to the first that has not the name a run gives."""
    lanes, rest = found["recipe"]["lanes"], list(found["shards"][split])
    result: list[list[ShardRecord]] = []
    for lane in range(lanes):
        shards: list[ShardRecord] = []
        while rest and rest[0]["file"] == shard_name(split, len(shards), lane, lanes):
            shards.append(rest.pop(0))
        result.append(shards)
    return result


def _check_records(
    lanes: list[list[ShardRecord]], found: Manifest, split: Split, faults: Faults
) -> None:
    named = sum(map(len, lanes))
    if named < len(found["shards"][split]):
        other = found["shards"][split][named]["file"]
        faults["name"] = f"{other!r} is not how a run names {split} shard {named}"
    capacity = found["recipe"]["shard_tokens"]
    for shard in (shard for shards in lanes for shard in shards[:-1]):
        if shard["tokens"] != capacity:
            faults.setdefault(
                "capacity",
                f"{shard['file']} holds {shard['tokens']:,} tokens, but all shards except the last "
                f"of a split hold {capacity:,}",
            )


class _Border(NamedTuple):
    """A place between two tokens: whole documents before it, tokens of the open document."""

    documents: int
    tokens: int


class _Read(NamedTuple):
    """The end tokens in one shard, and the tokens behind the last of them."""

    ends: int
    tail: int


def _check_lane(
    folder: Path,
    shards: list[ShardRecord],
    found: Manifest,
    faults: Faults,
    on_shard: Callable[[str], None],
) -> int:
    """Number of end tokens in one lane; adds to ``faults``."""
    ends, at, last_row = 0, _Border(0, 0), 0
    for shard in shards:
        on_shard(shard["file"])
        path = folder / shard["file"]
        recorded = _Border(shard["first_document"], shard["first_token"])
        if recorded != at:
            faults.setdefault("border", _other_border(path, recorded, at))
        row = shard.get("first_row", last_row)  # the first version does not record it
        if row < last_row:
            faults.setdefault(
                "row",
                f"{path} is recorded to begin at visited row {row:,}, but the "
                f"shard before it begins at row {last_row:,}",
            )
        last_row = row
        read = _check_tokens(path, shard, found, faults)
        carried = 0 if read.ends else recorded.tokens
        at = _Border(recorded.documents + read.ends, carried + read.tail)
        ends += read.ends
    if at.tokens:
        last = folder / shards[-1]["file"]
        faults.setdefault("last", f"{last} ends in the middle of a document")
    return ends


def _other_border(path: Path, recorded: _Border, at: _Border) -> str:
    return (
        f"{path} is recorded to begin at token {recorded.tokens:,} of document "
        f"{recorded.documents:,}, but the shards before it end at token {at.tokens:,} of document "
        f"{at.documents:,}"
    )


def _check_tokens(path: Path, shard: ShardRecord, found: Manifest, faults: Faults) -> _Read:
    try:
        check_shard(path, shard, manifest.dtype_of(found))
    except DamagedFile as error:
        faults.setdefault("shard", str(error))
        return _Read(0, 0)
    ids: NDArray[Any] = np.load(path, mmap_mode="r")
    bound, end = found["tokenizer"]["vocab_size"], found["tokenizer"]["eos_id"]
    ends = tail = 0
    for start in range(0, len(ids), _BLOCK):
        block = ids[start : start + _BLOCK]
        if int(block.max()) >= bound:
            faults.setdefault("id range", f"{path}: id {int(block.max())} is not below {bound}")
        places = np.flatnonzero(block == end)
        ends += len(places)
        tail = len(block) - 1 - int(places[-1]) if len(places) else tail + len(block)
    return _Read(ends, tail)
