"""Footers of Parquet files on the Hub, read by range requests: rows and sizes, no data."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_lib.errors import DamagedFile
from pipeline_lib.hub.client import RepoListing
from pipeline_lib.hub.retry import DEFAULT_RETRIES, RetryPolicy, with_retries

_BLOCK_BYTES = 64 << 10
_SIGNATURE = 12 + 16


class RemoteFooter(NamedTuple):
    """Rows of a file and their uncompressed bytes, which are close to their bytes in Arrow.

    ``leaves`` holds the bytes of each innermost column by its path, such as
    ``"messages.list.element.role"``; it is empty where columns are encrypted.
    """

    rows: int
    arrow_bytes: int
    leaves: Mapping[str, int]


def has_encrypted_columns(metadata: pq.FileMetaData, tail: bytes) -> bool:
    """Whether a file may have encrypted columns, from its metadata and its last eight bytes.

    The footer of such a file is signed, so it is longer than its metadata by a nonce and a tag. To
    ask pyarrow for the facts of an encrypted column ends the process.
    """
    return int.from_bytes(tail[:4], "little") - int(metadata.serialized_size) == _SIGNATURE


def remote_footer(
    listing: RepoListing, path: str, *, retries: RetryPolicy = DEFAULT_RETRIES
) -> RemoteFooter:
    """The footer of one file at the listing's commit; it costs some 64 KiB of transfer.

    ``HubError``; ``DamagedFile`` if the file does not end in a Parquet footer.
    """
    subject = f"{path} of {listing.where}"
    try:
        return with_retries(subject, lambda: _read(listing, path), retries=retries)
    except pa.ArrowInvalid as error:
        raise DamagedFile(
            f"{subject} does not end in a Parquet footer ({error}); pin another revision"
        ) from error


def _read(listing: RepoListing, path: str) -> RemoteFooter:
    from huggingface_hub import HfFileSystem

    address = f"{listing.address}/{path}"
    with HfFileSystem().open(address, "rb", block_size=_BLOCK_BYTES, cache_type="none") as file:
        found = pq.ParquetFile(file).metadata
        file.seek(listing.file(path).size - 8)
        signed = has_encrypted_columns(found, file.read(8))
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    leaves: Counter[str] = Counter()
    for group in groups:
        for number in range(0 if signed else group.num_columns):
            chunk = group.column(number)
            leaves[chunk.path_in_schema] += chunk.total_uncompressed_size
    return RemoteFooter(found.num_rows, sum(group.total_byte_size for group in groups), leaves)
