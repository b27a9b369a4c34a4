"""Where caches lie and how they are tended: one argument for every stage that keeps one."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipeline_lib.records import OnProgress

SAVE_EVERY_SECONDS = 1_800.0


@dataclass(frozen=True)
class CacheOptions:
    """The cache folder, the time between commits, who is told; none changes what is written.

    ``clock`` is monotonic, in seconds. ``verify="full"`` hashes every byte of a complete cache
    when it is opened, ``"sizes"`` looks at sizes alone.
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
        """Whether every byte is hashed."""
        return self.verify == "full"
