"""A Hub dataset as a source: Parquet files at a pinned commit, fetched one by one.

Every file is compared with the Hub's own hash before it is used.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pipeline_lib import digest
from pipeline_lib.hub import client, footers
from pipeline_lib.records import SourceFile

_LOG = logging.getLogger(__name__)
FOOTERS_ASKED = 64
"""The Hub is asked for the footers of at most so many files, about 64 KiB each."""


@dataclass
class HubSource:
    """The Parquet files of one config's train split at a pinned commit of a Hub dataset."""

    listing: client.RepoListing
    config: str | None
    files: list[SourceFile]
    seals: dict[str, SourceFile] = field(default_factory=dict)

    @property
    def dataset(self) -> str:
        """Repository name."""
        return self.listing.repo

    @property
    def location(self) -> str:
        """Repository name."""
        return self.listing.repo

    @property
    def revision(self) -> str:
        """The 40-hex commit id."""
        return self.listing.commit

    def path(self, name: str) -> Path:
        """The file in the Hub's cache, fetched if need be, and equal to the file that the Hub
        lists."""
        return client.fetch_file(self.listing, name)

    def check_unchanged(self, name: str) -> None:
        """Nothing to do: the Hub's cache holds a file under the name of its content."""

    def sha256(self, name: str) -> str:
        """Hex SHA-256 of a file: as the Hub lists it, else of the copy in the Hub's cache."""
        listed = self.listing.file(name).sha256
        return listed or digest.sha256_file(client.fetch_file(self.listing, name))

    def rows_by_file(self) -> dict[str, int] | None:
        """Rows of each file, from its footer by a range request; ``None`` if there are more than
        ``FOOTERS_ASKED`` files."""
        if len(self.files) > FOOTERS_ASKED:
            return None
        names = [file["name"] for file in self.files]
        return {name: footers.remote_footer(self.listing, name).rows for name in names}

    def rows_of(self, names: Iterable[str]) -> int | None:
        """``None``: counting would open remote files."""
        return None


def hub_source(listing: client.RepoListing, config: str | None) -> HubSource:
    """The train split of a config; ``HubError`` lists the splits there are if it has none."""
    sizes = {file.path: file.size for file in listing.files}
    names = sorted(client.train_files(listing, config))
    _warn_of_copies(listing, names)
    return HubSource(listing, config, [SourceFile(name=n, size=sizes[n]) for n in names])


def _warn_of_copies(listing: client.RepoListing, names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        file = listing.file(name)
        other = seen.setdefault(file.sha256 or file.blob_id or name, name)
        if other != name:
            _LOG.warning(
                "%s: %s and %s have the same content, so its rows are read twice",
                listing.where, other, name,
            )  # fmt: skip
