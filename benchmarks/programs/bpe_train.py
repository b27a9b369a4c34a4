"""Train a byte-level BPE on the first texts of every file; prints JSON with the seconds."""

import argparse
import json
import time
from pathlib import Path

import corpus
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from pipeline_lib.tokenization.bpe_training import train_bpe
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS
from pipeline_lib.tokenization.training_texts import cut_runs


def reference(texts: list[str], vocabulary: int) -> bytes:
    """By ``tokenizers`` alone, as its documentation shows; long runs are already cut."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(CONTROL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return str(tokenizer.to_str()).encode()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--column", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--kind", choices=("ours", "reference"), required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--vocabulary", type=int, required=True)
    given = parser.parse_args()
    texts = list(corpus.some_texts(given.corpus, given.column, given.bytes))
    pieces = [piece for text in texts for piece in cut_runs(text)]
    started = time.perf_counter()
    if given.kind == "ours":
        data = train_bpe(iter(texts), vocab_size=given.vocabulary).json
    else:
        data = reference(pieces, given.vocabulary)
    seconds = time.perf_counter() - started
    given.output.mkdir(parents=True)
    (given.output / "tokenizer.json").write_bytes(data)
    print(json.dumps({"seconds": seconds, "texts": len(texts)}))


if __name__ == "__main__":
    main()
