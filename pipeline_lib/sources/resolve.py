"""Where documents come from: a pinned Hub revision or a folder of Parquet, file by file.

Both kinds answer the same few questions: what is it (revision), which files in which sizes,
and give me file ``name``, verified. A Hub file is compared with the Hub's own hash. A local
file is identified by name, size and footer, and by its SHA-256 from when it is first opened.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pipeline_lib import shuffling
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.errors import HubError, SourceChanged, SourceError
from pipeline_lib.hub import client, footers
from pipeline_lib.records import Cursor, SourceFile
from pipeline_lib.shuffling import RowBlock
from pipeline_lib.sources import parquet
from pipeline_lib.sources.folder import FolderSource
from pipeline_lib.sources.parquet import parquet_texts

FOOTERS_ASKED = 64
"""A dry run asks the Hub for the footers of at most so many files, about 64 KiB each."""

__all__ = [
    "CorpusSource",
    "FolderSource",
    "HubSource",
    "blocks",
    "parquet_texts",
    "reader_metadata",
    "resolve_parquet_files",
]


class CorpusSource(Protocol):
    """A pinned set of Parquet files.

    ``location`` is where it was found and never part of an identity; ``files`` are sorted by
    name and carry what is known of each.
    """

    files: list[SourceFile]
    seals: dict[str, SourceFile]

    @property
    def dataset(self) -> str:
        """Repository, or ``"folder"``: a path is no identity."""

    @property
    def config(self) -> str | None:
        """Config of a Hub dataset."""

    @property
    def revision(self) -> str:
        """Commit id, or ``sha256:`` and the digest of a folder's listing."""

    @property
    def location(self) -> str:
        """Repository or absolute path."""

    def path(self, name: str) -> Path:
        """A local, verified copy of one file."""

    def rows(self) -> int | None:
        """Rows in all files, or ``None`` where that needs a large transfer."""

    def rows_of(self, names: Iterable[str]) -> int | None:
        """Rows in some files, or ``None`` where that needs any transfer."""


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
        """The file in the Hub cache, fetched if need be, equal to what the Hub lists."""
        return client.fetch_file(self.listing, name)

    def rows(self) -> int | None:
        """Rows in all files, from their footers by range requests; ``None`` if they are many."""
        if len(self.files) > FOOTERS_ASKED:
            return None
        return sum(footers.remote_footer(self.listing, f["name"]).rows for f in self.files)

    def rows_of(self, names: Iterable[str]) -> int | None:
        """``None``: it would open remote files."""
        return None


def resolve_parquet_files(
    dataset: str, config: str | None = None, revision: str | None = None
) -> CorpusSource:
    """The source a recipe names: an existing folder first, else a Hub dataset, pinned.

    ``SourceError`` / ``HubError`` list what is there when the config has no train files.
    """
    folder = Path(dataset)
    if folder.is_dir():
        if config is not None:
            raise ValueError(f"config is {config!r}, but a folder has none; leave --config out")
        return _folder(folder, revision)
    if dataset.count("/") != 1 or dataset.startswith((".", "/", "~")):
        raise SourceError(
            f"{dataset} is neither an existing folder nor a Hub dataset (owner/name); "
            "check the path"
        )
    try:
        listing = client.resolve_revision(dataset, revision)
    except HubError as error:
        raise type(error)(f"{error} (and there is no local folder {folder.absolute()})") from error
    sizes = {file.path: file.size for file in listing.files}
    names = sorted(client.train_files(listing, config))
    return HubSource(listing, config, [SourceFile(name=n, size=sizes[n]) for n in names])


def _folder(folder: Path, revision: str | None) -> FolderSource:
    source = FolderSource(str(folder.resolve()))
    if revision is not None and not revision.startswith("sha256:"):
        raise ValueError(
            f"revision is {revision!r}, but a folder has no branches or commits; leave --revision "
            "out"
        )
    if revision not in (None, source.revision):
        raise SourceChanged(
            f"{folder} is {source.revision}, but {revision} was asked for: files were added, "
            "removed or rewritten; restore them, or start a fresh run without that revision"
        )
    return source


def check_columns(source: CorpusSource, column: str) -> None:
    """Check the text column of every local file before any work; remote ones when opened."""
    if isinstance(source, FolderSource):
        for file in source.files:
            parquet.open_text(Path(source.location, file["name"]), column).close()


def check_first_file(source: CorpusSource, recipe: Recipe) -> None:
    """Fetch the file that a run over a Hub dataset begins with and check its text column, so
    that a wrong name is found before the run leaves anything behind."""
    if isinstance(source, HubSource):
        first = shuffling.file_order((file["name"] for file in source.files), recipe.seed)[0]
        parquet.open_text(source.path(first), recipe.text_column).close()


def check_sealed(source: CorpusSource, seals: Mapping[str, SourceFile]) -> None:
    """Take over the seals of an earlier run; ``SourceChanged`` names a file that broke one."""
    source.seals.update(seals)
    for name in seals:
        source.path(name)


def reader_metadata(source: CorpusSource, recipe: Recipe) -> dict[str, Any]:
    """How rows are read and ordered, as the checkpoint records it."""
    return {
        "files": shuffling.file_order((file["name"] for file in source.files), recipe.seed),
        "sizes": {file["name"]: file["size"] for file in source.files},
        "footers": {f["name"]: f["footer"] for f in source.files if "footer" in f},
        "interface": "parquet",
        "column": recipe.text_column,
        "batch_size": recipe.tokenization_batch_size,
        "read": parquet.READ_SETTINGS,
        "shuffle": {
            "algorithm": shuffling.SHUFFLE,
            "files": [recipe.seed, shuffling.FILE_STREAM],
            "documents": [
                [recipe.seed, shuffling.DOCUMENT_STREAM + k] for k in range(recipe.lanes)
            ],
        },
    }


def blocks(
    source: CorpusSource, names: Iterable[str], column: str, start: Cursor
) -> Generator[RowBlock, None, None]:
    """Rows of the ordered files from ``start`` on; ``RowBlock.file`` counts in ``names``."""
    for number, name in enumerate(names):
        if number < start.file:
            continue
        first = start.row if number == start.file else 0
        for row, rows in parquet_texts(source.path(name), column, first):
            yield RowBlock(number, row, rows)
