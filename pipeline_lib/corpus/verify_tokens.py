"""Re-check the shards of one split: names, every byte, the id range, where documents begin."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.shards import check_shard, shard_name
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import ShardRecord

_BLOCK = 1 << 22

Faults = dict[str, str]
"""The first fault of each kind."""
_FOLLOWS = {
    "shard": ("end tokens", "border", "last"),
    "name": ("sum", "end tokens", "border", "last"),
    "end tokens": ("border", "last"),
}
"""What a fault of one kind brings about in others, where it would only be said twice."""


class _Border(NamedTuple):
    """A place between two tokens: whole documents before it, tokens of the open one."""

    documents: int
    tokens: int


class _Read(NamedTuple):
    """What the tokens of one shard are: end tokens, and tokens behind the last of them."""

    ends: int
    tail: int


def check_split(
    folder: Path, found: dict[str, Any], split: str, on_shard: Callable[[str], None]
) -> Faults:
    """The first fault of each kind in one split; ``on_shard`` gets each name before it is read.

    Memory does not grow with the shards.
    """
    faults: Faults = {}
    lanes = by_lane(found, split)
    _check_records(lanes, found, split, faults)
    ends = sum(_check_lane(folder, lane, found, faults, on_shard) for lane in lanes)
    tokens = sum(shard["tokens"] for lane in lanes for shard in lane)
    counts = found["counts"]
    if tokens != counts[f"{split}_tokens"]:
        faults["sum"] = (
            f"{split}: shards hold {tokens:,} tokens, {counts[f'{split}_tokens']:,} recorded"
        )
    if ends != counts[f"{split}_documents"]:
        faults["end tokens"] = (
            f"{split}: {ends:,} end tokens for {counts[f'{split}_documents']:,} documents"
        )
    for cause, effects in _FOLLOWS.items():
        if cause in faults:
            faults = {kind: fault for kind, fault in faults.items() if kind not in effects}
    return faults


def by_lane(found: dict[str, Any], split: str) -> list[list[ShardRecord]]:
    """The shards of a split, lane by lane, as far as they bear the names a run gives them."""
    lanes, rest = found["recipe"]["lanes"], list(found["shards"][split])
    result: list[list[ShardRecord]] = []
    for lane in range(lanes):
        shards: list[ShardRecord] = []
        while rest and rest[0]["file"] == shard_name(split, len(shards), lane, lanes):
            shards.append(rest.pop(0))
        result.append(shards)
    return result


def _check_records(
    lanes: list[list[ShardRecord]], found: dict[str, Any], split: str, faults: Faults
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


def _check_lane(
    folder: Path,
    shards: list[ShardRecord],
    found: dict[str, Any],
    faults: Faults,
    on_shard: Callable[[str], None],
) -> int:
    """Number of end tokens in one lane; adds to ``faults``."""
    ends, at = 0, _Border(0, 0)
    for shard in shards:
        on_shard(shard["file"])
        path = folder / shard["file"]
        recorded = _Border(shard["first_document"], shard["first_token"])
        if recorded != at:
            faults.setdefault("border", _other_border(path, recorded, at))
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


def _check_tokens(path: Path, shard: ShardRecord, found: dict[str, Any], faults: Faults) -> _Read:
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
