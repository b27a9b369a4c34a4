"""The one address of the Hub: revisions, lists of files with hashes, verified downloads.

The Hub clients check the size of what they fetch and nothing else, so every file fetched
here is compared with the hash the Hub itself lists: SHA-256 of large files, the git blob id
of small ones.
"""

import functools
import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline_lib import digest
from pipeline_lib.errors import HubError
from pipeline_lib.hub import cards
from pipeline_lib.hub.retry import (
    DEFAULT_RETRIES,
    DamagedDownload,
    Gated,
    NoAccess,
    NotFound,
    OnWait,
    RetryPolicy,
    with_retries,
)

UNKNOWN = -1
"""Size of a file whose size the Hub does not list."""
_LOG = logging.getLogger(__name__)
_HEX40, _HEX64 = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class HubFile:
    """One file of a repository: size in bytes; ``sha256`` if large, ``blob_id`` of git else."""

    path: str
    size: int
    sha256: str | None = None
    blob_id: str | None = None


@dataclass(frozen=True)
class RepoListing:
    """A repository at one commit (40 hex digits): its files and the header of its card."""

    repo: str
    kind: str
    commit: str
    files: tuple[HubFile, ...]
    gated: bool = False
    card: Mapping[str, Any] = field(default_factory=dict)

    def file(self, path: str) -> HubFile:
        """The entry of one file; ``NotFound`` if the repository has none of that name."""
        for entry in self.files:
            if entry.path == path:
                return entry
        raise NotFound(f"{self.where} has no file {path}; it has {len(self.files)} others")

    @property
    def where(self) -> str:
        """Repository and short revision, as errors name them."""
        return f"{self.repo} at {self.commit[:12]}"


def resolve_revision(
    repo: str,
    revision: str | None = None,
    kind: str = "dataset",
    *,
    on_wait: OnWait | None = None,
    retries: RetryPolicy = DEFAULT_RETRIES,
) -> RepoListing:
    """Ask the Hub which commit a revision is now, and what files it holds.

    ``kind`` is ``"dataset"`` or ``"model"``. A name such as ``main`` is never the identity:
    the listing holds the 40-hex commit. ``HubError`` subclasses say what to do.
    """
    from huggingface_hub import HfApi

    what = f"{kind} {repo}" + (f" at revision {revision!r}" if revision else "")
    info: Any = with_retries(
        what,
        lambda: HfApi().repo_info(repo, revision=revision, repo_type=kind, files_metadata=True),
        on_wait=on_wait,
        retries=retries,
    )
    commit = str(info.sha or "")
    if not _HEX40.fullmatch(commit):
        raise HubError(f"{what}: the Hub gave {info.sha!r}, expected a commit id of 40 hex digits")
    files = tuple(sorted((_entry(s) for s in info.siblings or ()), key=lambda entry: entry.path))
    listing = RepoListing(repo, kind, commit, files, bool(info.gated))
    card = _read_card(listing, info, on_wait, retries) if kind == "dataset" else {}
    return RepoListing(repo, kind, commit, files, bool(info.gated), card)


def fetch_file(
    listing: RepoListing,
    path: str,
    *,
    on_wait: OnWait | None = None,
    retries: RetryPolicy = DEFAULT_RETRIES,
) -> Path:
    """One file at the listing's commit, in the Hub cache, equal to what the Hub lists.

    Wrong bytes are fetched once more, then ``DamagedDownload``.
    """
    from huggingface_hub import hf_hub_download

    entry = listing.file(path)
    for last_chance in (False, True):
        local = Path(
            with_retries(
                f"{path} of {listing.where}",
                lambda: hf_hub_download(
                    listing.repo, path, repo_type=listing.kind, revision=listing.commit
                ),
                on_wait=on_wait,
                retries=retries,
            )
        )
        if matches(local, entry):
            return local
        found = f"{local.stat().st_size:,} bytes, SHA-256 {digest.sha256_file(local)}"
        _forget(local)
        if not last_chance:
            _LOG.warning(
                "%s of %s arrived damaged (%s); fetching again", path, listing.where, found
            )
    raise DamagedDownload(
        f"{path} of {listing.where} arrived damaged twice: {found}; the Hub lists {entry.size:,} "
        f"bytes, {_expected(entry)}. A proxy may be changing it; try later or on another network"
    )


def remote_blocks(
    listing: RepoListing,
    path: str,
    *,
    block_bytes: int = 4 << 20,
    on_wait: OnWait | None = None,
    retries: RetryPolicy = DEFAULT_RETRIES,
) -> Iterator[bytes]:
    """One file from its start, by range requests as its bytes are asked for; nothing is kept.

    Bytes that are not read to their end can not be compared with a hash: prefer ``fetch_file``.
    """
    from huggingface_hub import HfFileSystem

    def read(start: int) -> bytes:
        with HfFileSystem().open(address, "rb", cache_type="none") as file:
            file.seek(start)
            return bytes(file.read(block_bytes))

    folder = "datasets/" if listing.kind == "dataset" else ""
    address = f"{folder}{listing.repo}@{listing.commit}/{path}"
    what, size, start = f"{path} of {listing.where}", listing.file(path).size, 0
    while start != size:
        block = with_retries(what, functools.partial(read, start), on_wait=on_wait, retries=retries)
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


def matches(path: Path, entry: HubFile) -> bool:
    """Whether a local file has the size and the hash the Hub lists for it.

    Where the listing has no hash, the entity tag under which the client cached it serves.
    """
    if entry.size not in (UNKNOWN, path.stat().st_size):
        return False
    tag = path.resolve().name
    sha256 = entry.sha256 or (tag if not entry.blob_id and _HEX64.fullmatch(tag) else None)
    blob_id = entry.blob_id or (tag if _HEX40.fullmatch(tag) else None)
    if sha256:
        return digest.sha256_file(path) == sha256
    return blob_id is None or git_blob_id(path) == blob_id


def git_blob_id(path: Path) -> str:
    """The id git gives a file's content, in hex."""
    found = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def train_files(
    listing: RepoListing, config: str | None = None, split: str = "train"
) -> tuple[str, ...]:
    """Parquet files of one split by the card's globs, sorted; errors list what is there."""
    names = (entry.path for entry in listing.files)
    return cards.card_files(listing.card, names, config, split, listing.where)


def check_access(
    listing: RepoListing, *, on_wait: OnWait | None = None, retries: RetryPolicy = DEFAULT_RETRIES
) -> None:
    """``Gated`` or ``NoAccess`` if the files of a gated repository are closed to us.

    The lists of gated repositories are public, so this asks for the head of one file.
    """
    if not (listing.gated and listing.files):
        return
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    path = listing.files[0].path
    url = hf_hub_url(listing.repo, path, repo_type=listing.kind, revision=listing.commit)
    with_retries(
        f"{listing.kind} {listing.repo}",
        lambda: get_hf_file_metadata(url),
        on_wait=on_wait,
        retries=retries,
    )


def converted_files(listing: RepoListing, config: str, split: str) -> tuple[str, ...]:
    """Parquet files of one split on the ``refs/convert/parquet`` branch; never a partial one."""
    return cards.converted_files((e.path for e in listing.files), config, split, listing.where)


def _entry(sibling: Any) -> HubFile:
    lfs = sibling.lfs
    sha256 = lfs["sha256"] if isinstance(lfs, Mapping) else getattr(lfs, "sha256", None)
    size = sibling.size if sibling.size is not None else UNKNOWN
    return HubFile(sibling.rfilename, int(size), sha256, sibling.blob_id)


def _read_card(
    listing: RepoListing, info: Any, on_wait: OnWait | None, retries: RetryPolicy
) -> Mapping[str, Any]:
    """The YAML header of README.md at the commit; of a gated one, what the Hub's API shows."""
    import yaml  # slow to import, and folders need none

    if not any(entry.path == "README.md" for entry in listing.files):
        return {}
    try:
        text = fetch_file(listing, "README.md", on_wait=on_wait, retries=retries).read_text(
            encoding="utf-8-sig", errors="replace"
        )
    except (Gated, NoAccess):
        return dict(info.card_data.to_dict()) if info.card_data is not None else {}
    header = re.match(r"\s*---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(\r?\n|\Z)", text, re.DOTALL)
    try:
        found = yaml.safe_load(header.group(1)) if header else {}
    except yaml.YAMLError as error:
        raise HubError(
            f"the card of {listing.where} is not valid YAML; the repository's owner "
            "has to mend README.md, or pin an earlier revision"
        ) from error
    return found if isinstance(found, Mapping) else {}


def _forget(local: Path) -> None:
    """Take a wrong file out of the Hub cache: the link and the blob behind it."""
    blob = local.resolve()
    local.unlink(missing_ok=True)
    blob.unlink(missing_ok=True)


def _expected(entry: HubFile) -> str:
    return f"SHA-256 {entry.sha256}" if entry.sha256 else f"git blob id {entry.blob_id}"
