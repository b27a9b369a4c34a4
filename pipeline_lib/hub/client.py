"""Repositories of the Hub: pinned revisions, lists of files, verified downloads.

The Hub clients check only the size of a file that they fetch. Here every fetched file is also
compared with the hash that the Hub lists.
"""

import functools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline_lib import digest
from pipeline_lib.errors import HubError
from pipeline_lib.hub import cards
from pipeline_lib.hub.card_text import Card, card_of
from pipeline_lib.hub.files import UNKNOWN, HubFile, is_commit
from pipeline_lib.hub.refusals import DamagedDownload, Gated, NoAccess, NotFound
from pipeline_lib.hub.retry import DEFAULT_RETRIES, RetryPolicy, with_retries

BLOCK_BYTES = 4 << 20
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RepoListing:
    """A repository at one commit (40 hex digits): its files and the header of its card.

    ``kind`` is ``"dataset"`` or ``"model"``.
    """

    repo: str
    kind: str
    commit: str
    files: tuple[HubFile, ...]
    gated: bool = False
    card: Card = field(default_factory=dict)

    def file(self, path: str) -> HubFile:
        """The entry of one file; ``NotFound`` if the repository has none of that name."""
        for entry in self.files:
            if entry.path == path:
                return entry
        raise NotFound(f"{self.where} has no file {path}; it has {len(self.files)} others")

    @property
    def where(self) -> str:
        """Repository and short revision, for errors."""
        return f"{self.repo} at {self.commit[:12]}"

    @property
    def address(self) -> str:
        """The place of its files in the Hub's file system."""
        folder = "datasets/" if self.kind == "dataset" else ""
        return f"{folder}{self.repo}@{self.commit}"


def resolve_revision(
    repo: str,
    revision: str | None = None,
    kind: str = "dataset",
    *,
    retries: RetryPolicy = DEFAULT_RETRIES,
) -> RepoListing:
    """Ask the Hub for the commit of a revision and for the files it holds.

    ``kind`` is ``"dataset"`` or ``"model"``. ``revision`` is a branch, tag or commit (None: the
    main branch). A branch may move, so the listing holds the 40-hex commit. ``HubError``.
    """
    from huggingface_hub import HfApi

    subject = f"{kind} {repo}" + (f" at revision {revision!r}" if revision else "")
    info: Any = with_retries(
        subject,
        lambda: HfApi().repo_info(repo, revision=revision, repo_type=kind, files_metadata=True),
        retries=retries,
    )
    commit = str(info.sha or "")
    if not is_commit(commit):
        raise HubError(
            f"{subject}: the Hub gave {info.sha!r}, expected a commit id of 40 hex digits; "
            "try later"
        )
    files = tuple(sorted((_entry(s) for s in info.siblings or ()), key=lambda entry: entry.path))
    listing = RepoListing(repo, kind, commit, files, bool(info.gated))
    if kind != "dataset":
        return listing
    return replace(listing, card=_read_card(listing, info, retries))


def fetch_file(listing: RepoListing, path: str, *, retries: RetryPolicy = DEFAULT_RETRIES) -> Path:
    """One file at the listing's commit, in the Hub cache, equal to the Hub's hash.

    Wrong bytes are fetched once more, then ``DamagedDownload``. ``HubError``.
    """
    entry = listing.file(path)
    for last in (False, True):
        local = _fetch(listing, path, retries)
        if entry.matches(local):
            return local
        found = f"{local.stat().st_size:,} bytes, SHA-256 {digest.sha256_file(local)}"
        _forget(local)
        if not last:
            _LOG.warning("%s of %s is damaged (%s); fetching again", path, listing.where, found)
    raise DamagedDownload(
        f"{path} of {listing.where} arrived damaged twice: {found}; the Hub lists {entry.size:,} "
        f"bytes, {entry.hash}. A proxy may be changing it; try later or on another network"
    )


def _fetch(listing: RepoListing, path: str, retries: RetryPolicy) -> Path:
    from huggingface_hub import hf_hub_download

    fetch = functools.partial(
        hf_hub_download, listing.repo, path, repo_type=listing.kind, revision=listing.commit
    )
    return Path(with_retries(f"{path} of {listing.where}", fetch, retries=retries))


def _forget(local: Path) -> None:
    """Take a wrong file out of the Hub cache: the link and the blob behind it."""
    blob = local.resolve()
    local.unlink(missing_ok=True)
    blob.unlink(missing_ok=True)


def remote_blocks(
    listing: RepoListing,
    path: str,
    *,
    block_bytes: int = BLOCK_BYTES,
    retries: RetryPolicy = DEFAULT_RETRIES,
) -> Iterator[bytes]:
    """One file from its start, in blocks that are requested one by one; nothing is kept.

    A file that is not read to its end can not be compared with a hash, so prefer ``fetch_file``.
    """
    from huggingface_hub import HfFileSystem

    def read(start: int) -> bytes:
        with HfFileSystem().open(address, "rb", cache_type="none") as file:
            file.seek(start)
            return bytes(file.read(block_bytes))

    address, subject = f"{listing.address}/{path}", f"{path} of {listing.where}"
    start, size = 0, listing.file(path).size
    while start != size:
        block = with_retries(subject, functools.partial(read, start), retries=retries)
        if not block:
            return
        yield block
        start += len(block)


def is_cached(listing: RepoListing, path: str) -> bool:
    """Whether the Hub cache holds a file at the listing's commit; nothing is asked or hashed."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(
        listing.repo, path, revision=listing.commit, repo_type=listing.kind
    )
    return isinstance(found, str)


def check_access(listing: RepoListing, *, retries: RetryPolicy = DEFAULT_RETRIES) -> None:
    """``Gated`` or ``NoAccess`` if a gated repository is closed to us.

    The list of its files is public, so this asks for the head of one file.
    """
    if not (listing.gated and listing.files):
        return
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    path = listing.files[0].path
    url = hf_hub_url(listing.repo, path, repo_type=listing.kind, revision=listing.commit)
    subject = f"{listing.kind} {listing.repo}"
    with_retries(subject, lambda: get_hf_file_metadata(url), retries=retries)


def train_files(
    listing: RepoListing, config: str | None = None, split: str = "train"
) -> tuple[str, ...]:
    """The Parquet files of one split, by the patterns of the card, sorted.

    ``NoSuchFiles`` lists the configs, splits or files that are there.
    """
    names = (entry.path for entry in listing.files)
    return cards.card_files(listing.card, names, config, split, listing.where)


def converted_files(listing: RepoListing, config: str, split: str) -> tuple[str, ...]:
    """The Parquet files of one split on the branch ``refs/convert/parquet``.

    ``NoSuchFiles`` if there are none, or if the branch holds only a part of the split.
    """
    return cards.converted_files((e.path for e in listing.files), config, split, listing.where)


def _entry(sibling: Any) -> HubFile:
    lfs = sibling.lfs
    sha256 = lfs["sha256"] if isinstance(lfs, Mapping) else getattr(lfs, "sha256", None)
    size = sibling.size if sibling.size is not None else UNKNOWN
    return HubFile(sibling.rfilename, int(size), sha256, sibling.blob_id)


def _read_card(listing: RepoListing, info: Any, retries: RetryPolicy) -> Card:
    """The YAML header of README.md at the commit; if README.md is closed, the Hub's own copy."""
    if not any(entry.path == "README.md" for entry in listing.files):
        return {}
    try:
        path = fetch_file(listing, "README.md", retries=retries)
    except (Gated, NoAccess):
        return dict(info.card_data.to_dict()) if info.card_data is not None else {}
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    remedy = "the repository's owner has to mend README.md, or pin an earlier revision"
    return card_of(text, listing.where, remedy)
