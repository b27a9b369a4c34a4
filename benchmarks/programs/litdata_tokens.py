"""litdata's ``optimize`` with two workers and its ``TokensLoader`` format, tokenizers inside."""

import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
from litdata import optimize
from litdata.streaming.item_loader import TokensLoader
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))  # for the workers
from given import files, given, texts


@cache
def _tokenizer(path: str) -> Tokenizer:
    return Tokenizer.from_file(path)


def tokens(path: str, column: str, tokenizer_path: str) -> Iterator[np.ndarray]:
    """The ids of each document of a file, with the end token behind."""
    tokenizer = _tokenizer(tokenizer_path)
    end = [tokenizer.token_to_id("<|endoftext|>")]
    for text in texts(Path(path), column):
        yield np.array(tokenizer.encode(text, add_special_tokens=False).ids + end, np.uint16)


def main() -> None:
    options = given()
    path = str(options.tokenizer / "tokenizer.json")
    optimize(
        fn=partial(tokens, column=options.column, tokenizer_path=path),
        inputs=[str(path) for path in files(options.corpus)],
        output_dir=str(options.output / "tokens"),
        chunk_bytes="64MB",
        item_loader=TokensLoader(),
        num_workers=2,
    )


if __name__ == "__main__":
    main()
