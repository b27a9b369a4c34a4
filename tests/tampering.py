"""Changes of a published folder with right digests, as a bug might make them."""

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest
from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.layout import MANIFEST, shard_name
from pipeline_lib.corpus.shards import save_array
from pipeline_lib.corpus.verify import shards_by_lane
from pipeline_lib.storage import atomic


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest and seal it again."""
    fields = json.loads((folder / MANIFEST).read_bytes())
    change(fields)
    sealed = manifest.seal(manifest.content_of(fields), fields["measured"])
    atomic.save_json(folder / MANIFEST, sealed)


def replace_shard(
    folder: Path, change: Callable[[NDArray[Any]], object], number: int = 0, split: str = "train"
) -> None:
    """Write a shard anew with other tokens, as many or fewer, and record its right hash."""
    path = folder / f"{split}_{number:05d}.npy"
    tokens = np.load(path)
    changed = change(tokens)
    tokens = changed if isinstance(changed, np.ndarray) else tokens
    written = save_array(path, tokens)
    record = {"sha256": written.sha256, "tokens": len(tokens)}
    edit(folder, lambda fields: fields["shards"][split][number].update(record))


Documents = dict[tuple[str, int], list[list[int]]]
"""Split and lane -> the ids of its documents, each with its end token."""
Place = tuple[str | int, ...]
"""The names and numbers that lead to a value in JSON."""


def rewrite(folder: Path, change: Callable[[Documents], object]) -> None:
    """Write all shards anew after a change of their documents, and record what then is true.

    Rows stay accounted for, so that a check of the folder alone finds nothing.
    """
    found = manifest.load(folder)
    splits, lanes = ("train", "val"), found["recipe"]["lanes"]
    documents: Documents = {
        (split, lane): _documents(folder, shards, found["tokenizer"]["eos_id"])
        for split in splits
        for lane, shards in enumerate(shards_by_lane(found, split))  # type: ignore[arg-type]
    }
    before = sum(map(len, documents.values()))
    change(documents)
    for path in folder.glob("*.npy"):
        path.unlink()

    def tell(fields: dict[str, Any]) -> None:
        for split in splits:
            mine = [documents[split, lane] for lane in range(lanes)]
            fields["shards"][split] = [
                record
                for lane in range(lanes)
                for record in _write(folder, split, lane, mine[lane], fields)
            ]
            for end, part in zip(fields["lanes"], mine, strict=True):
                if split == "train":
                    end["train_tokens"] = sum(map(len, part))
            fields["counts"][f"{split}_documents"] = sum(map(len, mine))
            fields["counts"][f"{split}_tokens"] = sum(len(d) for part in mine for d in part)
        after = sum(map(len, documents.values()))
        fields["counts"]["prefetched_documents_not_written"] += before - after

    edit(folder, tell)


def _documents(folder: Path, shards: list[Any], end: int) -> list[list[int]]:
    ids = [token for shard in shards for token in np.load(folder / shard["file"]).tolist()]
    documents: list[list[int]] = [[]]
    for token in ids:
        documents[-1].append(token)
        if token == end:
            documents.append([])
    return documents[:-1]


def _write(
    folder: Path, split: str, lane: int, documents: list[list[int]], fields: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    capacity, lanes = fields["recipe"]["shard_tokens"], fields["recipe"]["lanes"]
    rows = {shard["file"]: shard["first_row"] for shard in fields["shards"][split]}
    last = max(rows.values(), default=0)  # of a shard that is new no row is known
    ids = np.array([token for d in documents for token in d], fields["dtype"])
    starts = np.array([0, *itertools.accumulate(map(len, documents))][:-1])
    for number, start in enumerate(range(0, len(ids), capacity)):
        name = shard_name(split, number, lane, lanes)
        part = ids[start : start + capacity]
        owner = int(np.searchsorted(starts, start, side="right")) - 1
        yield {
            "file": name, "tokens": len(part), "sha256": save_array(folder / name, part).sha256,
            "first_document": owner, "first_token": start - int(starts[owner]),
            "first_row": rows.get(name, last),
        }  # fmt: skip


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in a JSON value, of objects and lists too, from the outside in."""
    yield at
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in inner:
            yield from places(part, (*at, name))


def altered(value: Any) -> Iterator[Any]:
    """Other values of the same JSON type (of null: of the types that it may stand for)."""
    match value:
        case bool():
            yield not value
        case int():
            yield from (value + 1, max(value - 1, 0) if value else 2)
        case float():
            yield from (value / 2 + 0.001,)
        case str():
            yield from (value + "x", value[:-1] + ("0" if value[-1:] != "0" else "1"), "")
        case None:
            yield from (1, True, "x")
        case list():
            yield from (value[:-1], value[::-1], value + value[:1])
        case dict():
            yield from ({**value, "more": 1}, dict(list(value.items())[:-1]))


def edit_place(folder: Path, place: Place, value: Any) -> dict[str, Any]:
    """Put another value at one place of the manifest and make every digest right; returns all."""

    def put(fields: dict[str, Any]) -> None:
        inside: Any = fields
        for name in place[:-1]:
            inside = inside[name]
        inside[place[-1]] = copy.deepcopy(value)
        if place[0] == "recipe":
            fields["recipe_digest"] = digest.of_json(fields["recipe"])

    edit(folder, put)
    return dict(json.loads((folder / MANIFEST).read_bytes()))


def as_first(fields: dict[str, Any]) -> None:
    """Turn the fields of a manifest into those of its first format."""
    fields["format_version"] = 1
    for name in ("reader", "rows_left_out", "lanes"):
        fields.pop(name)
    fields.pop("unknown_tokens")
    fields["source"].pop("sha256", None)
    for shard in (shard for shards in fields["shards"].values() for shard in shards):
        shard.pop("first_row")
    for name in ("first_rejected", "decoded_again", "decoded_with_loss"):
        fields["measured"].pop(name)
    fields["measured"].pop("source_mtimes_ns", None)
    fields["measured"]["encoder"] = fields["measured"].pop("encoders")[-1]
