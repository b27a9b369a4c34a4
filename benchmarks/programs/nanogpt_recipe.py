"""nanoGPT's ``data/openwebtext/prepare.py``: ``datasets.map(num_proc=2)`` with tiktoken, then
one memmap written in 1,024 batches.

The encoding is built from the given vocabulary, because tiktoken would download its own.
"""

import json

import datasets
import numpy as np
import tiktoken
from given import files, given

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def _symbols() -> dict[str, int]:
    """The character that stands for each byte in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    moved = {chr(256 + place): byte for place, byte in enumerate(others)}
    return {chr(byte): byte for byte in plain} | moved


def encoding(path: str) -> tuple[tiktoken.Encoding, int]:
    """The tiktoken form of a GPT-2-like tokenizer.json, and its end token."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 (also runs in map's workers)
        fields = json.load(file)
    special = {token["content"]: token["id"] for token in fields["added_tokens"]}
    byte_of = _symbols()
    ranks = {
        bytes(byte_of[symbol] for symbol in token): rank
        for token, rank in fields["model"]["vocab"].items()
        if token not in special
    }
    found = tiktoken.Encoding("own", pat_str=GPT2, mergeable_ranks=ranks, special_tokens=special)
    return found, special["<|endoftext|>"]


def main() -> None:
    options = given()
    enc, eot = encoding(str(options.tokenizer / "tokenizer.json"))
    options.output.mkdir(parents=True)
    dataset = datasets.load_dataset(
        "parquet",
        data_files=[str(path) for path in files(options.corpus)],
        split="train",
        cache_dir=str(options.output / "cache"),
        num_proc=2,
    )

    def process(example: dict[str, str]) -> dict[str, object]:
        ids = enc.encode_ordinary(example[options.column])
        ids.append(eot)
        return {"ids": ids, "len": len(ids)}

    tokenized = dataset.map(process, remove_columns=dataset.column_names, num_proc=2)
    total = int(np.sum(tokenized["len"], dtype=np.uint64))
    target = options.output / "train.bin"
    out = np.memmap(target, dtype=np.uint16, mode="w+", shape=(total,))
    batches = min(1_024, len(tokenized))
    place = 0
    for number in range(batches):
        part = tokenized.shard(num_shards=batches, index=number, contiguous=True)
        ids = np.concatenate(part.with_format("numpy")["ids"])
        out[place : place + len(ids)] = ids
        place += len(ids)
    out.flush()


if __name__ == "__main__":
    main()
