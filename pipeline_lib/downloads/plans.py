"""The plan of a download: one commit, its files, and the figures that the card states.

The revision is pinned and the files are named before any of them is fetched.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.saved import Origin, OriginFile, Saved
from pipeline_lib.hub import client
from pipeline_lib.hub.builders import split_files
from pipeline_lib.hub.files import HubFile
from pipeline_lib.hub.retry import DEFAULT_RETRIES, RetryPolicy
from pipeline_lib.records import OnProgress
from pipeline_lib.sources import json_lines

if TYPE_CHECKING:
    import datasets

EVERYTHING = -1
"""The limit that takes all rows."""


@dataclass(frozen=True)
class FetchOptions:
    """How data sets are fetched.

    - ``limit``: the most rows to take from each data set, before normalizing; -1 takes all.
      ``ValueError`` for another number below 1.
    - ``seed``: chooses the rows of a limited sample. It is not used for a streaming data set,
      of which the first rows are taken.
    - ``on_progress(file, done, files)``: called after each file with its name, the number of files
      that are fetched, and the number of files in all.
    - ``retries``: how often a call to the Hub is repeated, and who is told of a pause.
    """

    limit: int = EVERYTHING
    seed: int = 0
    on_progress: OnProgress | None = None
    retries: RetryPolicy = DEFAULT_RETRIES

    def __post_init__(self) -> None:
        if self.limit != EVERYTHING and self.limit <= 0:
            raise ValueError(f"limit is {self.limit}; expected a number of rows > 0, or -1 for all")

    @property
    def limited(self) -> bool:
        """Whether not all rows are wanted."""
        return self.limit != EVERYTHING


@dataclass(frozen=True)
class DownloadPlan:
    """The files of a data set at one commit.

    ``builder`` is the format, by its name in ``datasets`` (``"parquet"``, ``"json"``).
    ``features`` (column types), ``stated_rows`` and ``stated_bytes`` (in Arrow) come from the
    card; None where it does not state them.
    """

    spec: DatasetSpec
    listing: client.RepoListing
    files: tuple[HubFile, ...]
    builder: str = "parquet"
    features: "datasets.Features | None" = None
    stated_rows: int | None = None
    stated_bytes: int | None = None

    @property
    def names(self) -> list[str]:
        """Paths of the files in the repository."""
        return [file.path for file in self.files]

    @property
    def lines(self) -> bool:
        """Whether all files are JSON Lines."""
        return self.builder == "json" and all(map(json_lines.is_lines, self.names))

    @property
    def streamable(self) -> bool:
        """Whether rows can be read from the Hub while no file is kept: plain JSON Lines."""
        return self.lines and not any(map(json_lines.is_packed, self.names))

    @property
    def download_bytes(self) -> int:
        """Bytes of all files, as the Hub lists them."""
        return sum(max(file.size, 0) for file in self.files)


def plan_download(spec: DatasetSpec, options: FetchOptions | None = None) -> DownloadPlan:
    """Pin the revision of a data set and name its files; only metadata is asked for.

    If that is not possible, a ``HubError`` or ``SourceError`` names the cause and the remedy.
    """
    retries = options.retries if options else DEFAULT_RETRIES
    listing = client.resolve_revision(spec.path, spec.parquet or spec.revision, retries=retries)
    client.check_access(listing, retries=retries)
    if spec.parquet is None:
        found = split_files(listing, spec.config, spec.splits, retries=retries)
        return DownloadPlan(spec, listing, *found)
    names = [
        name
        for split in spec.splits
        for name in client.converted_files(listing, str(spec.config), split)
    ]
    return DownloadPlan(spec, listing, tuple(map(listing.file, names)))


def origin(plan: DownloadPlan, options: FetchOptions) -> Origin:
    """The record of where the rows of a fetched data set come from."""
    spec = plan.spec
    return {
        "path": spec.path,
        "config": spec.config,
        "splits": list(spec.splits),
        "revision": plan.listing.commit,
        "requested_revision": spec.parquet or spec.revision,
        "licence": spec.licence,
        "gated": plan.listing.gated,
        "max_bytes": spec.max_bytes,
        "capped": None if spec.max_bytes is None else list(spec.counted),
        "limit": options.limit,
        "seed": options.seed if options.limited and not spec.streaming else None,
        "stated_rows": plan.stated_rows,
        "files": [OriginFile(name=f.path, size=f.size, sha256=f.sha256) for f in plan.files],
    }


def holds_enough(there: Saved, limit: int) -> bool:
    """Whether a saved copy holds the rows that a limit asks for."""
    held = there.origin.get("limit", EVERYTHING)
    return held == EVERYTHING or 0 < limit <= held
