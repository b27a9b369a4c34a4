"""An entry of the registry: where a data set lives, how it is fetched, under which terms.

The list of data sets is ``DATASETS`` in ``download_data.py``; no data set is named here.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pipeline_lib.columns import Columns

Role = Literal["dialogue", "reasoning", "encyclopedic", "preference"]

ROLES = ("dialogue", "reasoning", "encyclopedic", "preference")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True)
class DatasetSpec:
    """One data set of the Hub, and how it is fetched. ``ValueError`` for a value out of range.

    - ``path``: the repository, ``owner/name``. ``config``: its config; None is the default one.
      ``splits``: the splits, joined in this order.
    - ``role``: the use of the data set, one of ``ROLES``.
    - ``columns``: the columns that its normalizer reads, with their Arrow types. They are compared
      with the files of the Hub and with the saved copy, so a renamed or retyped column is an error
      and not a column of nulls. From JSON Lines only these columns are saved.
    - ``licence``, ``citation``: as texts for people.
    - ``revision``: a branch, tag or commit; it is pinned to a commit before anything is fetched.
      ``parquet``: the branch of converted Parquet files, which is read instead of the originals.
    - ``streaming``: rows are read in stored order, and only as many as a limit needs; else a limit
      takes a seeded sample.
    - ``max_bytes``: the longest start of the rows is saved whose text has at most so many UTF-8
      bytes. ``capped``: the columns whose text counts; empty: all of ``columns``.
    - ``gated``: the Hub asks for accepted terms and a token.
    - ``group``: the column that holds the rows of one message tree together. Such a data set is
      fetched whole, because a limit would cut trees.
    - ``disabled``: why the data set is fetched only if it is named; empty if it is always fetched.
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
    capped: tuple[str, ...] = ()
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
        if unknown := [name for name in self.capped if name not in self.columns]:
            raise ValueError(f"capped of {self.path} names {unknown}; expected some of its columns")
        if self.parquet is not None and self.config is None:
            raise ValueError(f"{self.path} is read from {self.parquet}, which needs a config name")

    @property
    def counted(self) -> Columns:
        """The columns whose text ``max_bytes`` counts, with their types."""
        return {name: self.columns[name] for name in self.capped or self.columns}

    @property
    def enabled(self) -> bool:
        """Whether the data set is fetched when no names are given."""
        return not self.disabled


def check_name(name: str) -> str:
    """The name of a data set; ``ValueError`` if it can not name a folder too."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} can not name a data set: use a-z, 0-9, '_' and '-'")
    return name


def choose_datasets(
    datasets: Mapping[str, DatasetSpec], names: Iterable[str]
) -> dict[str, DatasetSpec]:
    """The named data sets, each once, in the order of ``names``; without names all enabled ones.

    The keys are the names. ``ValueError`` for an unknown name lists the known ones.
    """
    wanted = list(dict.fromkeys(names)) or [n for n, spec in datasets.items() if spec.enabled]
    unknown = [name for name in wanted if name not in datasets]
    if unknown:
        raise ValueError(
            f"unknown data set {', '.join(map(repr, unknown))}; known: {', '.join(datasets)}"
        )
    return {name: datasets[name] for name in wanted}
