"""Long laws, in full size: what a 32-bit offset, a page or a batch could cut or swell.

They take minutes and gigabytes of disk, so they run on request: ``pytest -m long``. What is
expected is made from one small block of text by the reference encoder; the corpora repeat it.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import text, tokenizer_file
from loopback_hub.publish import byte_level_tokenizer
from numpy.typing import NDArray

from pipeline_lib.corpus.verify import verify
from pipeline_lib.selection import split_for
from pipeline_lib.sources.parquet import parquet_texts
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer

pytestmark = [pytest.mark.long, pytest.mark.timeout(3_600)]

ROOT = Path(__file__).parent.parent
SEED, VAL_FRACTION, SHARD_TOKENS = 1337, 0.05, 100_000_000
GIB = 1 << 30


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Path]:
    tokenizer_file(tmp_path / "tokenizer", byte_level_tokenizer(documents(50), vocab_size=500))
    (tmp_path / "corpus").mkdir()
    yield tmp_path
    shutil.rmtree(tmp_path)  # gigabytes, which pytest would keep for three runs


def documents(count: int, sentences: int = 100) -> list[str]:
    """Documents of about a hundred bytes a sentence, no two alike."""
    return [
        "\n".join(text(number * sentences + n) for n in range(sentences)) for number in range(count)
    ]


def prepare(world: Path, *more: str) -> tuple[dict[str, Any], int]:
    """Run the command over the corpus; the manifest and the peak of anonymous memory in bytes."""
    command = [
        sys.executable, "-m", "pipeline_lib.prepare_data", "--output-dir", str(world / "out"),
        "--dataset", str(world / "corpus"), "--tokenizer", str(world / "tokenizer"),
        "--max-documents", str(10**9), "--val-fraction", str(VAL_FRACTION), "--seed", str(SEED),
        *more,
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT) as child:
        peak, ended = [0], threading.Event()
        watcher = threading.Thread(target=watch, args=(child.pid, peak, ended))
        watcher.start()
        child.wait()
        ended.set()
        watcher.join()
    assert child.returncode == 0
    return json.loads((world / "out" / "metadata.json").read_bytes()), peak[0]


def watch(pid: int, peak: list[int], ended: threading.Event) -> None:
    """Anonymous memory of a process, twenty times a second (only Linux shows it)."""
    status = Path(f"/proc/{pid}/status")
    while not ended.wait(0.05) and status.exists():
        found = re.search(r"RssAnon:\s+(\d+) kB", status.read_text())
        peak[0] = max(peak[0], int(found[1]) << 10 if found else 0)


def encoded(tokenizer: Tokenizer, texts: list[str]) -> NDArray[Any]:
    """Ids of the texts by the reference, an end token behind each."""
    ids, offsets = tokenizer.reference.encode([one.encode() for one in texts])
    parts = [np.append(ids[a:b], tokenizer.eos_id) for a, b in pairwise(offsets)]
    return np.concatenate([np.empty(0, np.uint32), *parts]).astype(tokenizer.dtype)


def sha_of_shards(world: Path, metadata: dict[str, Any], split: str) -> str:
    """SHA-256 over the tokens of a split, read from its files."""
    digest = hashlib.sha256()
    for shard in metadata["shards"][split]:
        digest.update(np.load(world / "out" / shard["file"], mmap_mode="r").data)
    return digest.hexdigest()


def sha_of_copies(ids: NDArray[Any], times: int) -> str:
    digest = hashlib.sha256()
    for _ in range(times):
        digest.update(ids.data)
    return digest.hexdigest()


TYPES = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("encoding", ["plain", "dictionary page"])
def test_a_row_group_beyond_two_gibibytes_is_read_whole(
    world: Path, kind: str, encoding: str
) -> None:
    base = documents(1_000)
    chunk = pa.array(base, pa.string()).cast(TYPES[kind])
    times = 2_300_000_000 // sum(map(len, base)) + 1
    column = pa.chunked_array([chunk] * times)
    path = world / "corpus" / "sub" / "deep" / "a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(
        pa.table({"text": column}), path, row_group_size=len(column), compression="zstd",
        use_dictionary=encoding != "plain",
    )  # fmt: skip
    group = pq.read_metadata(path).row_group(0)
    assert pq.read_metadata(path).num_row_groups == 1 and group.num_rows == len(base) * times
    if encoding == "plain":
        assert group.column(0).total_uncompressed_size > 2 * GIB
    metadata, peak = prepare(world, "--shuffle-buffer", "1")  # so the order is that of the rows
    tokenizer = load_tokenizer(world / "tokenizer")
    for split in ("train", "val"):
        own = encoded(tokenizer, [t for t in base if split_for(t, SEED, VAL_FRACTION) == split])
        assert metadata["counts"][f"{split}_tokens"] == len(own) * times
        assert sha_of_shards(world, metadata, split) == sha_of_copies(own, times)
    print(f"{kind}, {encoding}: peak {peak / 1e6:,.0f} MB")
    assert peak < GIB


def test_a_document_of_200_megabytes_crosses_shards_and_is_kept_whole(world: Path) -> None:
    block = "\n".join(documents(100)) + "\n"
    times = 200_000_000 // len(block) + 1
    short = documents(200, 3)
    values = [*short[:100], block * times, *short[100:]]
    pq.write_table(pa.table({"text": values}), world / "corpus" / "a.parquet", compression="zstd")
    metadata, peak = prepare(world, "--shard-tokens", "1_000_000", "--shuffle-buffer", "1")
    tokenizer = load_tokenizer(world / "tokenizer")
    one, two = (encoded(tokenizer, [block * n])[:-1] for n in (1, 2))
    assert np.array_equal(two, np.tile(one, 2))  # so the whole is as many copies of the ids
    side = split_for(values[100], SEED, VAL_FRACTION)
    for split in ("train", "val"):
        before, after = (
            encoded(tokenizer, [t for t in part if split_for(t, SEED, VAL_FRACTION) == split])
            for part in (short[:100], short[100:])
        )
        long = np.append(np.tile(one, times), tokenizer.eos_id) if split == side else one[:0]
        expected = np.concatenate([before, long, after]).astype(tokenizer.dtype)
        assert sha_of_shards(world, metadata, split) == sha_of_copies(expected, 1)
        assert all(shard["tokens"] == 10**6 for shard in metadata["shards"][split][:-1])
    assert metadata["counts"][f"{side}_tokens"] > 40_000_000
    assert verify(world / "out") == []
    print(f"200 MB document: peak {peak / 1e6:,.0f} MB")
    assert peak < 2 * GIB


def test_a_file_that_expands_to_twenty_gigabytes_is_read_in_bounded_memory(world: Path) -> None:
    long = "".join(documents(1, 10_000))[: 1 << 20]
    index = pa.array(np.zeros(20_000, np.int32))
    column = pa.DictionaryArray.from_arrays(index, pa.array([long]))
    path = world / "corpus" / "a.parquet"
    pq.write_table(pa.table({"text": column}), path, row_group_size=20_000, compression="zstd")
    assert path.stat().st_size < 1 << 20
    count, expected = 0, long.encode()
    before = pa.total_allocated_bytes()
    for _, rows in parquet_texts(path, "text"):
        assert rows[0] == rows[-1] == expected
        count += len(rows)
    assert count == 20_000 and pa.default_memory_pool().max_memory() - before < GIB


def test_many_files_in_folders_some_without_rows_are_read_in_bounded_memory(world: Path) -> None:
    base = documents(40)
    for number in range(500):
        path = world / "corpus" / f"{number % 7}" / f"{number:04d}.parquet"
        path.parent.mkdir(exist_ok=True)
        rows = [] if number % 5 == 0 else [f"{one}\n{number}" for one in base]
        pq.write_table(pa.table({"text": pa.array(rows, pa.string())}), path, compression="zstd")
    metadata, peak = prepare(world)
    assert metadata["counts"]["rows_visited"] == 400 * len(base)
    assert verify(world / "out") == []
    print(f"500 files: peak {peak / 1e6:,.0f} MB")
    assert peak < GIB
