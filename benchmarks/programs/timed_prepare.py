"""The project's own preparation, with the moments that can not be seen from outside.

``interval`` is in seconds; ``resume`` goes on with an unfinished run; ``kill_at`` is the share of
``rows`` at which the process kills itself. Prints JSON: ``first_batch``, the seconds from the
start of the process until the first batch is written; ``hashing``, those spent in restoring
shards; ``commits``, those of each commit.
"""

import json
import math
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import psutil
from given import arguments
from internals import ShardWriter, checkpoint

from pipeline_lib import PrepareOptions, Recipe, prepare

given = arguments(resume=False, kill_at=math.inf)
moments: dict[str, Any] = {}
flushing: list[float] = []
restoring: list[float] = []
commits: list[float] = []


def record(place: Any, name: str, note: Callable[[float], None]) -> None:
    """Let ``note`` know the seconds of every call of a function."""
    call = getattr(place, name)

    def timed(*arguments: Any) -> Any:
        started = time.perf_counter()
        result = call(*arguments)
        note(time.perf_counter() - started)
        return result

    setattr(place, name, timed)


def committed(seconds: float) -> None:
    """A commit is the flushing of both writers, and then the checkpoint."""
    commits.append(seconds + sum(flushing))
    flushing.clear()


def written(now: Any) -> None:
    """A batch is written."""
    moments.setdefault("first_batch", time.time() - psutil.Process().create_time())
    if now.rows >= given.kill_at * given.rows:
        os.kill(os.getpid(), signal.SIGKILL)


record(checkpoint, "save_checkpoint", committed)
record(ShardWriter, "flush", flushing.append)
record(ShardWriter, "restore", restoring.append)
recipe = Recipe(
    dataset=str(given.corpus),
    config=None,
    text_column=given.column,
    tokenizer=str(given.tokenizer),
    max_documents=given.rows,
)
options = PrepareOptions(checkpoint_interval=given.interval, on_progress=written)
prepare(recipe, given.output, resume=given.resume, options=options)
print(json.dumps(moments | {"hashing": sum(restoring), "commits": commits}))
