"""What fetching a registered source means: one commit, its files, what its card states.

The revision is pinned to a commit and the files are named before any of them is fetched.
Metadata only: nothing here transfers rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.errors import SourceError
from pipeline_lib.hub import client
from pipeline_lib.hub.retry import DEFAULT_RETRIES, OnWait, RetryPolicy, with_retries
from pipeline_lib.records import OnProgress
from pipeline_lib.sources import json_lines

if TYPE_CHECKING:
    import datasets


EVERYTHING = -1


@dataclass(frozen=True)
class DownloadPlan:
    """What fetching a source means at one commit.

    ``builder`` is the format by the name ``datasets`` has for it (``"parquet"``, ``"json"``).
    ``features``, ``stated_rows`` and ``stated_bytes`` (in Arrow) are what the card says, or
    None.
    """

    source: DatasetSpec
    listing: client.RepoListing
    files: tuple[client.HubFile, ...]
    builder: str = "parquet"
    features: "datasets.Features | None" = None
    stated_rows: int | None = None
    stated_bytes: int | None = None

    @property
    def lines(self) -> bool:
        """Whether all files are JSON Lines."""
        suffixes = json_lines.SUFFIXES + json_lines.PACKED
        return self.builder == "json" and all(f.path.endswith(suffixes) for f in self.files)

    @property
    def streamable(self) -> bool:
        """Whether rows can be read from the Hub without keeping a file: lines, not packed."""
        return self.lines and not any(f.path.endswith(json_lines.PACKED) for f in self.files)

    @property
    def download_bytes(self) -> int:
        """Bytes of all planned files, as the Hub lists them."""
        return sum(max(file.size, 0) for file in self.files)


@dataclass(frozen=True)
class FetchOptions:
    """How a caller wants it fetched: rows at most (-1: all), seed, and whom to tell."""

    limit: int = EVERYTHING
    seed: int = 0
    on_progress: OnProgress | None = None
    on_wait: OnWait | None = None
    retries: RetryPolicy = DEFAULT_RETRIES

    def __post_init__(self) -> None:
        if self.limit != EVERYTHING and self.limit <= 0:
            raise ValueError(f"limit is {self.limit}; expected a number of rows > 0, or -1 for all")


def plan_download(source: DatasetSpec, options: FetchOptions | None = None) -> DownloadPlan:
    """Pin the revision and name the files of a source; metadata only.

    ``HubError`` and ``SourceError`` subclasses tell what stands in the way and what to do.
    """
    options = options or FetchOptions()
    revision = source.parquet or source.revision
    listing = client.resolve_revision(
        source.path, revision, on_wait=options.on_wait, retries=options.retries
    )
    client.check_access(listing, on_wait=options.on_wait, retries=options.retries)
    if source.parquet is None:
        return _plan_by_card(source, listing, options)
    names = [
        name
        for split in source.splits
        for name in client.converted_files(listing, str(source.config), split)
    ]
    return DownloadPlan(source, listing, tuple(map(listing.file, names)))


def origin(planned: DownloadPlan, limit: int, seed: int) -> dict[str, Any]:
    """What a manifest records about where rows came from."""
    source = planned.source
    return {
        "path": source.path,
        "config": source.config,
        "splits": list(source.splits),
        "revision": planned.listing.commit,
        "requested_revision": source.parquet or source.revision,
        "licence": source.licence,
        "gated": planned.listing.gated,
        "max_bytes": source.max_bytes,
        "limit": limit,
        "seed": None if limit == EVERYTHING or source.streaming else seed,
        "stated_rows": planned.stated_rows,
        "files": [{"name": f.path, "size": f.size, "sha256": f.sha256} for f in planned.files],
    }


def _plan_by_card(
    source: DatasetSpec, listing: client.RepoListing, options: FetchOptions
) -> DownloadPlan:
    import datasets

    def build() -> Any:
        return datasets.load_dataset_builder(source.path, source.config, revision=listing.commit)

    try:
        builder = with_retries(
            f"dataset {source.path}", build, on_wait=options.on_wait, retries=options.retries
        )
    except ValueError as error:
        reason = " ".join(str(error).split())[:400].rstrip(".")
        raise SourceError(
            f"{listing.where}, config {source.config!r}: {reason}. Correct it in download_data.py"
        ) from error
    prefix = f"hf://datasets/{source.path}@{listing.commit}/"
    by_split: Mapping[str, Any] = {str(k): v for k, v in (builder.config.data_files or {}).items()}
    absent = [split for split in source.splits if split not in by_split]
    if absent:
        raise SourceError(
            f"{listing.where} has no split {', '.join(absent)}; it has {', '.join(by_split)}. "
            "Correct the splits in download_data.py"
        )
    names = [str(url).removeprefix(prefix) for s in source.splits for url in by_split[s]]
    stated = [(builder.info.splits or {}).get(split) for split in source.splits]
    listed = [entry for entry in stated if entry is not None]
    known = len(listed) == len(stated)
    return DownloadPlan(
        source,
        listing,
        tuple(map(listing.file, names)),
        builder.name,
        builder.info.features,
        sum(entry.num_examples for entry in listed) if known else None,
        sum(entry.num_bytes for entry in listed) if known else None,
    )
