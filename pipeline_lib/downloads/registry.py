"""What a registered data set is: where it lives, what is read of it, under which terms.

The list itself is ``DATASETS`` in ``download_data.py``; nothing here names a data set. A
source's ``columns`` are a contract: the columns its normalizer reads, with Arrow types.
They are compared with what the Hub delivers and with what lies on disk, so a renamed or
retyped column stops that source instead of emptying it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pipeline_lib.columns import Columns

Role = Literal["dialogue", "reasoning", "encyclopedic", "preference"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
ROLES = ("dialogue", "reasoning", "encyclopedic", "preference")


@dataclass(frozen=True)
class DatasetSpec:
    """One data set of the Hub and how it is fetched.

    ``revision`` is a branch, tag or commit; it is resolved to a commit before anything is
    fetched. ``parquet`` names the branch with automatically converted files to read instead
    of the originals. Of JSON Lines only ``columns`` are kept. ``streaming`` sources are read in
    stored order, and only as far as a limit needs. ``max_bytes`` bounds what is kept, in Arrow
    bytes. ``group`` names the column that holds together the rows of one message tree.
    ``disabled`` says why a source is not fetched unless it is asked for by name.
    """

    path: str
    role: Role
    columns: Columns
    licence: str
    citation: str
    config: str | None = None
    splits: tuple[str, ...] = ("train",)
    revision: str = "main"
    streaming: bool = False
    parquet: str | None = None
    max_bytes: int | None = None
    gated: bool = False
    group: str | None = None
    disabled: str = ""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"role of {self.path} is {self.role!r}; expected one of {ROLES}")
        if not self.columns or not self.splits:
            raise ValueError(f"{self.path} needs at least one column and one split")
        if self.max_bytes is not None and self.max_bytes <= 0:
            raise ValueError(f"max_bytes of {self.path} is {self.max_bytes}; expected > 0")
        if self.parquet is not None and self.config is None:
            raise ValueError(f"{self.path} is read from {self.parquet}, which needs a config name")

    @property
    def enabled(self) -> bool:
        """Whether it is fetched when no names are given."""
        return not self.disabled


def check_name(name: str) -> str:
    """The name of a source, which is also a folder name: ``ValueError`` if it can not be one."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} can not name a data set: use a-z, 0-9, '_' and '-'")
    return name


def choose_datasets(
    datasets: Mapping[str, DatasetSpec], names: Iterable[str]
) -> dict[str, DatasetSpec]:
    """The named sources, each once, in the order given; without names all enabled ones.

    ``ValueError`` lists the known names if one is unknown.
    """
    wanted = list(dict.fromkeys(names)) or [n for n, source in datasets.items() if source.enabled]
    unknown = [name for name in wanted if name not in datasets]
    if unknown:
        raise ValueError(
            f"unknown data set {', '.join(map(repr, unknown))}; known: {', '.join(datasets)}"
        )
    return {name: datasets[name] for name in wanted}
