"""From the name of a corpus to a pinned source: an existing folder first, else a Hub dataset."""

from pathlib import Path

from pipeline_lib.errors import HubError, SourceChanged, SourceError
from pipeline_lib.hub import client
from pipeline_lib.sources import parquet
from pipeline_lib.sources.corpus_source import CorpusSource
from pipeline_lib.sources.folder import FolderSource
from pipeline_lib.sources.hub_files import hub_source


def resolve_parquet_files(
    dataset: str, config: str | None = None, revision: str | None = None
) -> CorpusSource:
    """The source that a name stands for, pinned: a branch or tag becomes a commit id.

    ``dataset`` is a folder of Parquet files or a Hub dataset (``owner/name``). ``config`` is one of
    its card. ``revision`` belongs to a Hub dataset, but may also be the digest of a folder.
    ``HubError`` lists the configs or splits that are there if the train files are not.
    """
    folder = Path(dataset)
    if folder.is_dir():
        return _folder(folder, config, revision)
    if dataset.count("/") != 1 or dataset.startswith((".", "/", "~")):
        raise SourceError(
            f"{dataset} is neither an existing folder nor a Hub dataset (owner/name); "
            "check the path"
        )
    try:
        listing = client.resolve_revision(dataset, revision)
    except HubError as error:
        raise type(error)(f"{error} (and there is no local folder {folder.absolute()})") from error
    return hub_source(listing, config)


def _folder(folder: Path, config: str | None, revision: str | None) -> FolderSource:
    source = FolderSource(str(folder.resolve()), config)
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


def check_text_columns(source: CorpusSource, column: str) -> None:
    """Check the text column of every local file; a remote file is checked when it is opened.

    ``ColumnError`` unless each file has one text column of that name.
    """
    if isinstance(source, FolderSource):
        for file in source.files:
            parquet.open_text(Path(source.location, file["name"]), column).close()
