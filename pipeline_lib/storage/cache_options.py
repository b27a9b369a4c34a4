"""The cache folder and the options for writing it: one argument of every stage with a cache."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipeline_lib.records import OnProgress

SAVE_EVERY_SECONDS = 300.0


@dataclass(frozen=True)
class CacheOptions:
    """The cache folder and how it is written and checked; no option changes a cache's content.

    ``root``: the folder that holds all caches. ``save_every_seconds``: time between two commits of
    an unfinished cache. ``clock``: monotonic, in seconds. ``on_progress``: called with the name of
    the stage, the number of finished units, and the total. ``verify``: ``"full"`` hashes every byte
    of a complete cache when it is opened, ``"sizes"`` only compares file sizes; ``ValueError`` for
    any other value.
    """

    root: Path
    save_every_seconds: float = SAVE_EVERY_SECONDS
    clock: Callable[[], float] = time.monotonic
    on_progress: OnProgress | None = None
    verify: str = "sizes"

    def __post_init__(self) -> None:
        if self.verify not in ("sizes", "full"):
            raise ValueError(f"verify is {self.verify!r}; expected 'sizes' or 'full'")

    @property
    def full(self) -> bool:
        """Whether every byte is hashed when a cache is opened."""
        return self.verify == "full"
