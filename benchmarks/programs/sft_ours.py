"""Build the cache of ``SFTDataset`` from stored conversations; prints JSON with the seconds."""

import json
import time

import awkward  # noqa: F401 (gigatoken imports it at its first call; imports are not timed)
from sft_arguments import given
from sft_store import stored

from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.tokenization.tokenizer import load_tokenizer
from pipeline_lib.training.chat_datasets import SFTDataset


def main() -> None:
    options = given()
    conversations = stored(options.chats)
    tokenizer = load_tokenizer(options.tokenizer)
    started = time.perf_counter()
    data = SFTDataset(conversations, tokenizer, CacheOptions(options.output), max_len=options.width)
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "rows": len(data)}))


if __name__ == "__main__":
    main()
