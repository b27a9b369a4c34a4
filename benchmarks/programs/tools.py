"""What one would use instead of this project; ``tool`` names a function of this file.

Each writes tokens to ``output``, and imports what it needs: no tool pays for another one.
"""

import json
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from given import arguments, files, texts

END = "<|endoftext|>"
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
MOVED = [byte for byte in range(256) if byte not in PLAIN]
BYTE_OF = {chr(byte): byte for byte in PLAIN} | {chr(256 + n): MOVED[n] for n in range(len(MOVED))}
"""The byte that each character of a byte-level vocabulary stands for."""


def bare(given: SimpleNamespace) -> None:
    """The least that can be done: read the files, encode with gigatoken, write the ids.

    No shuffle, no split, no end tokens, no digests, no shards, nothing durable.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from gigatoken.gigatoken_rs import load_hf_json

    engine = load_hf_json((given.tokenizer / "tokenizer.json").read_text())
    with (given.output / "train.bin").open("wb") as out:
        for path in files(given.corpus):
            for batch in pq.ParquetFile(path).iter_batches(1_024, columns=[given.column]):
                encoded = engine.encode_batch(batch.column(0).cast(pa.binary()).to_pylist())
                out.write(np.asarray(encoded.layout.content.data).astype("<u2"))


def reference(given: SimpleNamespace) -> None:
    """A plain loop over ``tokenizers``: batches of 1,024 texts, all threads."""
    import numpy as np
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(given.tokenizer / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    end = [tokenizer.token_to_id(END)]
    with (given.output / "train.bin").open("wb") as out:
        for path in files(given.corpus):
            source = texts(path, given.column)
            while batch := list(islice(source, 1_024)):
                for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                    out.write(np.array(encoding.ids + end, "<u2"))


def nanogpt(given: SimpleNamespace) -> None:
    """nanoGPT's ``data/openwebtext/prepare.py``: ``datasets.map(num_proc=2)`` with tiktoken, then
    one memmap written in 1,024 batches."""
    import datasets
    import numpy as np

    enc, eot = _encoding(given.tokenizer / "tokenizer.json")
    paths, kept = [str(path) for path in files(given.corpus)], str(given.output / "cache")
    dataset = datasets.load_dataset(
        "parquet", data_files=paths, split="train", cache_dir=kept, num_proc=2
    )

    def process(example: dict[str, str]) -> dict[str, object]:
        ids = enc.encode_ordinary(example[given.column])
        ids.append(eot)
        return {"ids": ids, "len": len(ids)}

    tokenized = dataset.map(process, remove_columns=dataset.column_names, num_proc=2)
    total = int(np.sum(tokenized["len"], dtype=np.uint64))
    out = np.memmap(given.output / "train.bin", dtype=np.uint16, mode="w+", shape=(total,))
    batches, place = min(1_024, len(tokenized)), 0
    for number in range(batches):
        part = tokenized.shard(num_shards=batches, index=number, contiguous=True)
        ids = np.concatenate(part.with_format("numpy")["ids"])
        out[place : place + len(ids)] = ids
        place += len(ids)
    out.flush()


def _encoding(path: Path) -> tuple[Any, int]:
    """tiktoken's form of a GPT-2-like tokenizer.json, as it would download its own; the end id."""
    import tiktoken

    fields = json.loads(path.read_text(encoding="utf-8"))
    special = {token["content"]: token["id"] for token in fields["added_tokens"]}
    ranks = {
        bytes(BYTE_OF[symbol] for symbol in token): rank
        for token, rank in fields["model"]["vocab"].items()
        if token not in special
    }
    made = tiktoken.Encoding("own", pat_str=GPT2, mergeable_ranks=ranks, special_tokens=special)
    return made, special[END]


def datatrove(given: SimpleNamespace) -> None:
    """datatrove's own pipeline, two workers, its defaults.

    It shuffles the documents of each worker; merging the workers' files is left out.
    """
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    reader = ParquetReader(str(given.corpus), text_key=given.column, read_metadata=True)
    writer = DocumentTokenizer(
        output_folder=str(given.output / "tokens"),
        tokenizer_name_or_path=str(given.tokenizer / "tokenizer.json"),
        eos_token=END,
        seed=1337,
    )
    logs = str(given.output / "logs")
    LocalPipelineExecutor([reader, writer], tasks=2, workers=2, logging_dir=logs).run()


def litdata(given: SimpleNamespace) -> None:
    """litdata's ``optimize`` with two workers and its ``TokensLoader``, ``tokenizers`` inside."""
    from litdata import optimize
    from litdata.streaming.item_loader import TokensLoader

    optimize(
        fn=partial(_ids, column=given.column, tokenizer=str(given.tokenizer / "tokenizer.json")),
        inputs=[str(path) for path in files(given.corpus)],
        output_dir=str(given.output / "tokens"),
        chunk_bytes="64MB",
        item_loader=TokensLoader(),
        num_workers=2,
    )


def _ids(path: str, column: str, tokenizer: str) -> Iterator[Any]:
    """The ids of each document of a file, with the end token behind."""
    import numpy as np
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(tokenizer)
    end = [encoder.token_to_id(END)]
    for text in texts(Path(path), column):
        yield np.array(encoder.encode(text, add_special_tokens=False).ids + end, np.uint16)


def template_map(given: SimpleNamespace) -> None:
    """``datasets.map(num_proc=2)`` with a chat template and assistant masks, as TRL prepares.

    Prints JSON with the seconds from the stored data set ``rows`` to the mapped one on disk.
    """
    import datasets
    from transformers import PreTrainedTokenizerFast

    file = str(given.tokenizer / "tokenizer.json")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=file, chat_template=given.template)

    def rendered(row: dict[str, Any]) -> dict[str, list[int]]:
        both = tokenizer.apply_chat_template(
            row["messages"], return_dict=True, return_assistant_tokens_mask=True
        )
        return {name: both[name] for name in ("input_ids", "assistant_masks")}

    started = time.perf_counter()
    rows = datasets.load_from_disk(given.rows)
    mapped = rows.map(
        rendered,
        num_proc=2,
        remove_columns=rows.column_names,
        load_from_cache_file=False,
        cache_file_name=str(given.output / "mapped.arrow"),
    )
    seconds = time.perf_counter() - started
    mapped.to_parquet(str(given.output / "rows.parquet"))  # to be compared, not timed
    print(json.dumps({"seconds": seconds}))


TOOLS = {one.__name__: one for one in (bare, reference, nanogpt, datatrove, litdata, template_map)}

if __name__ == "__main__":
    given = arguments()
    given.output.mkdir(parents=True)
    TOOLS[given.tool](given)
