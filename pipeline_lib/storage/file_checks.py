"""Checks of a file against its record: its size, and the SHA-256 of its content."""

from pathlib import Path

from pipeline_lib import digest
from pipeline_lib.errors import DamagedFile


def check_size(path: Path, size: int, remedy: str, *, at_least: bool = False) -> None:
    """``DamagedFile`` unless the file has ``size`` bytes; ``at_least`` allows more.

    ``remedy`` is the end of the error text: the advice for the user.
    """
    found = path.stat().st_size if path.is_file() else None
    if found is None:
        raise DamagedFile(f"{path} is missing, {size:,} bytes were recorded; {remedy}")
    if found < size or (found > size and not at_least):
        raise DamagedFile(f"{path} has {found:,} bytes, {size:,} were recorded; {remedy}")


def check_sha256(path: Path, sha256: str, remedy: str) -> None:
    """``DamagedFile`` unless the SHA-256 of the whole file is the recorded one."""
    found = digest.sha256_file(path)
    if found != sha256:
        raise DamagedFile(f"{path}: SHA-256 is {found}, {sha256} was recorded; {remedy}")
