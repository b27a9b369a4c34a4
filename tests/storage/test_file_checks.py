"""Checks of whole files."""

from pathlib import Path

import pytest

from pipeline_lib import digest
from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage.file_checks import check_sha256, check_size


def test_a_size_is_met_exactly_unless_more_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(1_500))
    check_size(path, 1_500, "")
    check_size(path, 1_000, "", at_least=True)
    for size, at_least in ((1_000, False), (1_501, False), (1_501, True)):
        with pytest.raises(DamagedFile, match=f"a has 1,500 bytes, {size:,} were .*; do this"):
            check_size(path, size, "do this", at_least=at_least)


def test_what_is_no_file_is_missing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("none", "folder"):
        with pytest.raises(DamagedFile, match=f"{name} is missing, 5 bytes were recorded; do"):
            check_size(tmp_path / name, 5, "do this")


def test_a_digest_of_another_content_shows_both(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    check_sha256(tmp_path / "a", digest.sha256_bytes(b"abc"), "")
    with pytest.raises(DamagedFile, match=r"SHA-256 is ba7816bf\w+, 00 was recorded; do this"):
        check_sha256(tmp_path / "a", "00", "do this")
