"""One step from rows of a saved data set to opened datasets; ``open`` prints JSON with seconds."""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import awkward  # noqa: F401 (gigatoken imports it at its first call; imports are not timed)
import pyarrow as pa
from given import files, texts
from pipeline_lib.training.datasets import CachedDataset

from pipeline_lib.chat.mixture import mix
from pipeline_lib.chat.normalize import Normalized, normalize
from pipeline_lib.chat.rows import open_rows
from pipeline_lib.downloads import saved
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.tokenization.tokenizer import load_tokenizer
from pipeline_lib.training.chat_datasets import DPODataset, PretrainDataset, SFTDataset

TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
SOURCE = DatasetSpec("made/here", "dialogue", {"messages": TURNS}, "none", "none")
PIECE, OPENED = 1_000, 7


def _norm_chats(row: dict[str, Any]) -> list[dict[str, str]]:
    turns: list[dict[str, str]] = row["messages"]
    return turns


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("corpus", "tokenizer", "output"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--column", default="text")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--step", choices=("rows", "normalise", "build", "open"), required=True)
    given = parser.parse_args()
    if given.step == "rows":
        make_rows(given)
    elif given.step == "normalise":
        print(len(normalised(given.output).train))
    elif given.step == "build":
        print({name: len(made()) for name, made in openers(given).items()})
    else:
        timed = {"stored conversations": lambda: normalised(given.output), **openers(given)}
        print(json.dumps({name: seconds(made) for name, made in timed.items()}))


def make_rows(given: argparse.Namespace) -> None:
    """Save the rows as a download would, a piece at a time."""
    import datasets

    schema = pa.schema([("messages", TURNS)])
    saved.save(
        given.output / "chats",
        tables(given, schema),
        datasets.Features.from_arrow_schema(schema),
        columns=SOURCE.columns,
        origin={},
    )


def tables(given: argparse.Namespace, schema: pa.Schema) -> Iterator[pa.Table]:
    """Conversations of two to six turns of 10 to 120 words, each with its number."""
    found = pieces(given)
    for start in range(0, given.count, PIECE):
        chats = [
            {
                "messages": [
                    {"role": role, "content": f"{number:,}: {next(found)}"}
                    for role in ["user", "assistant"] * (1 + number % 3)
                ]
            }
            for number in range(start, min(start + PIECE, given.count))
        ]
        yield pa.Table.from_pylist(chats, schema=schema)


def pieces(given: argparse.Namespace) -> Iterator[str]:
    """Pieces of the corpus, again from its start when it ends."""
    for number, path in enumerate(itertools.cycle(files(given.corpus))):
        for text in filter(None, texts(path, given.column)):
            words = text.split(" ")
            while words:
                size = 10 + (number * 37) % 111
                yield " ".join(words[:size])[:1_200].strip() or "none"
                words, number = words[size:], number + 1


def normalised(folder: Path) -> Normalized:
    """The conversations in the project's store, made or opened."""
    return normalize(
        {"chats": open_rows(folder / "chats", SOURCE)},
        {"chats": _norm_chats},
        CacheOptions(folder / "cache"),
        seed=1,
    )


def openers(given: argparse.Namespace) -> dict[str, Callable[[], CachedDataset]]:
    """What makes each dataset, or opens it when its cache is complete."""
    train, tokenizer = normalised(given.output).train, load_tokenizer(given.tokenizer)
    site, width = CacheOptions(given.output / "cache"), given.width
    mixture = mix(train, {"chats": 1.5}, seed=1)
    return {
        "PretrainDataset": lambda: PretrainDataset(mixture, tokenizer, site, max_len=width),
        "SFTDataset": lambda: SFTDataset(train, tokenizer, site, max_len=width),
        "DPODataset": lambda: DPODataset(train, tokenizer, site, max_len=width),
    }


def seconds(made: Callable[[], object]) -> float:
    """The median of several openings, the first one aside."""
    found = []
    for _ in range(OPENED + 1):
        started = time.perf_counter()
        made()
        found.append(time.perf_counter() - started)
    return statistics.median(found[1:])


if __name__ == "__main__":
    main()
