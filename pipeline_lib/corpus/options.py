"""``PrepareOptions``: the choices of a caller of ``prepare`` that change no byte of the output."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from pipeline_lib.engines import Engine, in_order
from pipeline_lib.records import LaneProgress
from pipeline_lib.tokenization.equality import KINDS


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """How a run is carried out; no option changes a byte of the output.

    ``encoder``: "auto", "gigatoken" (fast) or "tokenizers" (the reference).
    ``checkpoint_interval``: seconds after which a commit falls due; it happens when a batch ends.
    ``verify``: the shards that a resumed run hashes, "all" or "recent" (those finished since the
    commit before the last). Sizes and headers of all shards are checked in any case.
    ``replay``: a resumed run reads the rows that it has visited once more and compares digests,
    instead of going straight to its place. So it does not need the snapshot of the shuffle buffer.
    ``engine``: runs the lanes; anything shaped like ``map``. ``clock``: monotonic seconds.
    ``on_progress``: called after every batch of every lane.

    ``ValueError`` for a value that is not among those.
    """

    encoder: str = "auto"
    checkpoint_interval: float = 60.0
    verify: str = "all"
    replay: bool = False
    engine: Engine = in_order
    clock: Callable[[], float] = time.monotonic
    on_progress: Callable[[LaneProgress], None] = lambda progress: None

    def __post_init__(self) -> None:
        if self.encoder not in KINDS:
            raise ValueError(f"encoder is {self.encoder!r}; choose one of {', '.join(KINDS)}")
        if not self.checkpoint_interval > 0:
            raise ValueError(
                f"checkpoint_interval is {self.checkpoint_interval}; give seconds above 0"
            )
        if self.verify not in ("all", "recent"):
            raise ValueError(f"verify is {self.verify!r}; choose all or recent")
