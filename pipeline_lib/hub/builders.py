"""A config of a Hub data set as ``datasets`` understands it: format, files, stated figures.

``datasets`` knows many layouts of a repository, with and without a card. It is asked for metadata
alone; no rows are fetched.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline_lib.errors import SourceError
from pipeline_lib.hub.client import RepoListing
from pipeline_lib.hub.files import HubFile
from pipeline_lib.hub.retry import DEFAULT_RETRIES, RetryPolicy, with_retries

if TYPE_CHECKING:
    import datasets


class SplitFiles(NamedTuple):
    """The files of some splits of a config, one split after the other.

    ``builder`` is the format, by its name in ``datasets`` (``"parquet"``, ``"json"``).
    ``features`` (column types), ``stated_rows`` and ``stated_bytes`` (in Arrow) come from the
    card; None where it does not state them.
    """

    files: tuple[HubFile, ...]
    builder: str
    features: "datasets.Features | None"
    stated_rows: int | None
    stated_bytes: int | None


def split_files(
    listing: RepoListing,
    config: str | None,
    splits: Sequence[str],
    *,
    retries: RetryPolicy = DEFAULT_RETRIES,
) -> SplitFiles:
    """The files of some splits at the listing's commit, found by ``datasets``.

    ``SourceError`` lists the configs or splits that are there; ``HubError``.
    """
    builder = _builder(listing, config, retries)
    by_split = {str(split): urls for split, urls in (builder.config.data_files or {}).items()}
    absent = [split for split in splits if split not in by_split]
    if absent:
        raise SourceError(
            f"{listing.where} has no split {', '.join(absent)}; it has {', '.join(by_split)}. "
            "Correct the splits in download_data.py"
        )
    prefix = f"hf://{listing.address}/"
    names = [str(url).removeprefix(prefix) for split in splits for url in by_split[split]]
    stated = builder.info.splits or {}
    infos = [stated[split] for split in splits if split in stated]
    known = len(infos) == len(splits)
    return SplitFiles(
        tuple(map(listing.file, names)),
        builder.name,
        builder.info.features,
        sum(info.num_examples for info in infos) if known else None,
        sum(info.num_bytes for info in infos) if known else None,
    )


def _builder(listing: RepoListing, config: str | None, retries: RetryPolicy) -> Any:
    import datasets

    def load() -> Any:
        return datasets.load_dataset_builder(listing.repo, config, revision=listing.commit)

    try:
        return with_retries(f"dataset {listing.repo}", load, retries=retries)
    except ValueError as error:
        reason = " ".join(str(error).split())[:400].rstrip(".")
        raise SourceError(
            f"{listing.where}, config {config!r}: {reason}. Correct it in download_data.py"
        ) from error
