"""The project's own preparation, with the moments that can not be seen from outside.

Prints JSON: ``first_batch``, seconds from the start of the process until the first batch is
written; ``hashing``, seconds in restoring them;
``commits``, seconds in each commit. With ``--kill-at SHARE`` it kills itself there instead.
"""

import argparse
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from pipeline_lib.corpus import checkpoint, shards
from pipeline_lib.corpus.prepare import PrepareOptions, prepare
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.records import LaneProgress

moments: dict[str, Any] = {"commits": [], "hashing": 0.0}


def timed(call: Callable[..., Any], record: Callable[[float], None]) -> Callable[..., Any]:
    """The same call, with the seconds it took recorded."""

    def timing(*arguments: Any) -> Any:
        started = time.perf_counter()
        result = call(*arguments)
        record(time.perf_counter() - started)
        return result

    return timing


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--output", type=Path, required=True)
    add("--corpus", required=True)
    add("--column", required=True)
    add("--tokenizer", required=True)
    add("--rows", type=int, required=True)
    add("--interval", type=float, required=True)
    add("--resume", action="store_true")
    add("--kill-at", type=float)
    return parser.parse_args()


def main() -> None:
    given = options()
    flushing: list[float] = []

    def committed(seconds: float) -> None:
        moments["commits"].append(seconds + sum(flushing))
        flushing.clear()

    def restored(seconds: float) -> None:
        moments["hashing"] += seconds

    def progress(now: LaneProgress) -> None:
        moments.setdefault("first_batch", time.time() - psutil.Process().create_time())
        if given.kill_at and now.rows >= given.kill_at * given.rows:
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.save_checkpoint = timed(checkpoint.save_checkpoint, committed)
    shards.ShardWriter.flush = timed(shards.ShardWriter.flush, flushing.append)  # type: ignore[method-assign]
    shards.ShardWriter.restore = timed(shards.ShardWriter.restore, restored)  # type: ignore[method-assign]
    recipe = Recipe(
        dataset=given.corpus,
        config=None,
        text_column=given.column,
        tokenizer=given.tokenizer,
        max_documents=given.rows,
    )
    settings = PrepareOptions(checkpoint_interval=given.interval, on_progress=progress)
    prepare(recipe, given.output, resume=given.resume, options=settings)
    print(json.dumps(moments))


if __name__ == "__main__":
    main()
