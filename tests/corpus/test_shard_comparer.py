"""A comparer finds exactly the documents whose published tokens are others, wherever shards end."""

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from crashes import seam
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_lib.corpus import shard_comparer
from pipeline_lib.corpus.layout import OPEN, PAYLOAD
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.shard_comparer import SHOWN, UNKNOWN, ShardComparer
from pipeline_lib.corpus.shard_cutter import ShardCutter
from pipeline_lib.corpus.shard_writer import ShardWriter
from pipeline_lib.records import WriterState

BATCHES = st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=5)


def fed(target: ShardCutter, batches: list[list[int]], dtype: str) -> WriterState:
    """Append batches of documents of these lengths, whose tokens count from 0; then finish."""
    position = row = 0
    for lengths in batches:
        tokens = np.arange(position, position + sum(lengths), dtype=dtype)
        target.append(tokens, np.array(lengths, np.int64), np.arange(row, row + len(lengths)))
        position, row = position + len(tokens), row + len(lengths)
    target.finish()
    return target.summary()


@given(
    batches=BATCHES,
    capacity=st.integers(1, 12),
    block=st.integers(1, 9),
    dtype=st.sampled_from(["<u2", "<u4"]),
    altered=st.sets(st.integers(0, 10**6), max_size=6),
)
@settings(max_examples=80)
def test_the_documents_with_an_altered_token_are_found_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], capacity: int, block: int,
    dtype: str, altered: set[int],
) -> None:  # fmt: skip
    staging = tmp_path_factory.mktemp("staging")
    for room in (OPEN, PAYLOAD):
        (staging / room).mkdir()
    recipe = Recipe(dataset="folder", shard_tokens=capacity)
    with seam():
        written = fed(ShardWriter(staging, "val", recipe, np.dtype(dtype)), batches, dtype)
    total = written["tokens"]
    places = sorted({place % total for place in altered}) if total else []
    for place in places:
        path = staging / PAYLOAD / written["shards"][place // capacity]["file"]
        data = np.load(path)
        data[place % capacity] += 1
        np.save(path, data)
    with pytest.MonkeyPatch.context() as patch, seam() as watched:
        patch.setattr(shard_comparer, "_BLOCK", block)
        recorded = {shard["file"]: shard["tokens"] for shard in written["shards"]}
        target = ShardComparer(staging / PAYLOAD, "val", recipe, np.dtype(dtype), 0, recorded)
        made = fed(target, batches, dtype)
    assert made == written and target.faults == [] and watched.names == []
    ends = list(accumulate(length for lengths in batches for length in lengths))
    first: dict[int, int] = {}
    for place in places:
        first.setdefault(bisect_right(ends, place), place)
    assert target.different == len(first)
    found = [(o.document, o.path.name, o.token, o.made[0], o.found[0]) for o in target.others]
    assert (
        found
        == [
            (n, written["shards"][p // capacity]["file"], p % capacity, p, p + 1)
            for n, p in first.items()
        ][:SHOWN]
    )


def test_a_shard_with_another_number_of_tokens_has_no_digest(tmp_path: Path) -> None:
    recipe = Recipe(dataset="folder", shard_tokens=5)
    np.save(tmp_path / "train_00000.npy", np.arange(5, dtype="<u2"))
    np.save(tmp_path / "train_00001.npy", np.arange(5, 9, dtype="<u2"))
    recorded = {"train_00000.npy": 5, "train_00001.npy": 4}
    target = ShardComparer(tmp_path, "train", recipe, np.dtype("<u2"), 0, recorded)
    made = fed(target, [[4, 4]], "<u2")
    assert [shard["sha256"] == UNKNOWN for shard in made["shards"]] == [False, True]
    assert [fault.split("train_00001.npy ")[1][:20] for fault in target.faults] == [
        "begins with another ", "has 136 bytes, 134 w",
    ]  # fmt: skip
