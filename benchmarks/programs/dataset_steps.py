"""One ``step`` from the rows of a saved data set to training datasets.

``normalise`` stores the conversations, ``build`` makes three datasets with caches in ``output``,
``sft`` only one of them, ``open`` opens all that is complete. The last two print JSON with the
seconds. ``history``: as for ``chat_format``; only a model's template has one.
"""

import json
import statistics
import time
from collections.abc import Callable, Sized

import awkward  # noqa: F401 (gigatoken imports it at its first call; imports are not timed)
from conversations import NAME, stored
from given import arguments

from pipeline_lib import (
    CacheOptions,
    DPODataset,
    PretrainDataset,
    SFTDataset,
    chat_format,
    load_tokenizer,
    mix,
)

OPENED = 7
"""How often each dataset is opened; the median counts."""

given = arguments()


def datasets() -> dict[str, Callable[[], Sized]]:
    """What builds each dataset, or opens it when its cache is complete."""
    train, tokenizer = stored(given.conversations), load_tokenizer(given.tokenizer)
    cache, width = CacheOptions(given.output), given.width
    form = chat_format(tokenizer, history=getattr(given, "history", "split"))
    mixture = mix(train, {NAME: 1.5}, seed=1)
    return {
        "PretrainDataset": lambda: PretrainDataset(mixture, tokenizer, cache, max_len=width),
        "SFTDataset": lambda: SFTDataset(train, tokenizer, cache, max_len=width, chat_format=form),
        "DPODataset": lambda: DPODataset(train, tokenizer, cache, max_len=width),
    }


def seconds(call: Callable[[], object]) -> float:
    """The seconds of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if given.step == "normalise":
    print(len(stored(given.conversations)))
elif given.step == "build":
    print({name: len(build()) for name, build in datasets().items()})
elif given.step == "sft":
    print(json.dumps({"seconds": seconds(datasets()["SFTDataset"])}))
else:
    calls = {"stored conversations": lambda: stored(given.conversations), **datasets()}
    times = {name: [seconds(call) for _ in range(OPENED + 1)] for name, call in calls.items()}
    print(json.dumps({name: statistics.median(found[1:]) for name, found in times.items()}))
