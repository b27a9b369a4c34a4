"""A local copy is equal to the file that the Hub lists, or it is not."""

import hashlib
from pathlib import Path

import pytest

from pipeline_lib.hub.files import UNKNOWN, HubFile, git_blob_id

DATA = b"some text\n"
SHA256 = hashlib.sha256(DATA).hexdigest()
BLOB = hashlib.sha1(b"blob %d\0" % len(DATA) + DATA).hexdigest()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    path = tmp_path / "copy"
    path.write_bytes(DATA)
    return path


@pytest.mark.parametrize(
    ("size", "sha256", "blob_id", "same"),
    [
        (len(DATA), SHA256, None, True),
        (len(DATA), None, BLOB, True),
        (len(DATA), SHA256, "0" * 40, True),  # of two hashes the stronger one counts
        (UNKNOWN, SHA256, None, True),
        (len(DATA) + 1, SHA256, None, False),
        (len(DATA), "0" * 64, None, False),
        (len(DATA), None, "0" * 40, False),
    ],
)
def test_size_and_hash_decide(
    copy: Path, size: int, sha256: str | None, blob_id: str | None, same: bool
) -> None:
    assert HubFile("a", size, sha256, blob_id).matches(copy) is same


@pytest.mark.parametrize(
    ("name", "same"), [(SHA256, True), (BLOB, True), ("0" * 64, False), ("0" * 40, False)]
)
def test_without_a_listed_hash_the_name_of_the_cached_copy_is_one(
    tmp_path: Path, name: str, same: bool
) -> None:
    (tmp_path / name).write_bytes(DATA)
    (tmp_path / "link").symlink_to(name)
    assert HubFile("a", len(DATA)).matches(tmp_path / "link") is same


def test_without_any_hash_the_size_decides(copy: Path) -> None:
    assert HubFile("a", len(DATA)).matches(copy)
    assert not HubFile("a", 1).matches(copy)


def test_the_blob_id_is_that_of_git(copy: Path) -> None:
    assert git_blob_id(copy) == BLOB
    assert HubFile("a", 1, blob_id=BLOB).hash == f"git blob id {BLOB}"
    assert HubFile("a", 1, SHA256).hash == f"SHA-256 {SHA256}"
