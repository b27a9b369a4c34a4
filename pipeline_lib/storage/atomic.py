"""Whole files that are either old or new after a crash, never something between.

The commit rule of the project is built on this: append data, fsync, atomically replace one small
JSON file that says how much of the data is committed, fsync the folder. Bytes that the JSON file
does not count do not exist.
"""

import contextlib
import hashlib
import json
import math
import mmap
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage.folders import sync_folder
from pipeline_lib.storage.system_calls import Buffer, explain_os_errors, system, write_all

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)


class WrittenFile(NamedTuple):
    """Size in bytes and hex SHA-256 of a written file."""

    size: int
    sha256: str


def write_new(path: Path, chunks: Iterable[Buffer]) -> WrittenFile:
    """Write a whole file and fsync it; its name is durable after ``sync_folder``."""
    digest, size = hashlib.sha256(), 0
    with explain_os_errors(path):
        fd = os.open(path, _NEW, 0o644)
        try:
            for chunk in chunks:
                write_all(fd, chunk)
                digest.update(chunk)
                size += len(memoryview(chunk).cast("B"))
            system.fsync(fd)
        finally:
            os.close(fd)
    return WrittenFile(size, digest.hexdigest())


def write_copy(path: Path, head: bytes, source: Path, skip: int) -> WrittenFile:
    """Write a new file and fsync it: ``head``, then ``source`` without its first ``skip`` bytes.

    A second thread computes the hash, because hashing takes longer than copying.
    """
    with explain_os_errors(path), source.open("rb") as file, ThreadPoolExecutor(1) as hasher:
        hashed = hasher.submit(_sha256_behind, head, file.fileno(), skip)
        fd = os.open(path, _NEW, 0o644)
        try:
            write_all(fd, head)
            size = skip
            while block := os.pread(file.fileno(), 1 << 20, size):
                write_all(fd, block)
                size += len(block)
            system.fsync(fd)
        finally:
            os.close(fd)
        return WrittenFile(len(head) + size - skip, hashed.result())


def _sha256_behind(head: bytes, fd: int, skip: int) -> str:
    digest = hashlib.sha256(head)
    with (
        mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
        view[skip:] as rest,
    ):
        digest.update(rest)
    return digest.hexdigest()


def replace_bytes(path: Path, data: Buffer) -> None:
    """Replace a file: write a temporary file beside it, fsync, rename, fsync the folder."""
    temporary = path.with_name(path.name + ".tmp")
    write_new(temporary, [data])
    with explain_os_errors(path):
        system.replace(temporary, path)
        sync_folder(path.parent)


def json_bytes(value: Any) -> bytes:
    """The bytes that ``save_json`` writes for a value; keys keep their order."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode("utf-8")


def save_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically and durably."""
    replace_bytes(path, json_bytes(value))


def load_json(path: Path) -> Any:
    """Read a JSON file; ``DamagedFile`` if it is not valid, ``FileNotFoundError`` if absent.

    NaN and numbers that are too large for a float are not valid, although Python reads them.
    """
    try:
        return json.loads(path.read_bytes(), parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(
            f"{path} is not valid JSON ({error}); it was damaged after it was written. "
            "Restore it from a copy, or remove it if its content can be made again"
        ) from error


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def keep_previous(path: Path, previous: Path) -> None:
    """Give a file a second name, which keeps the old content when the first is replaced."""
    remove(previous)
    with explain_os_errors(previous):
        system.link(path, previous)


def set_aside(path: Path, aside: Path) -> None:
    """Rename a file to ``aside``, durably, replacing a file there; an absent file is fine."""
    with contextlib.suppress(FileNotFoundError), explain_os_errors(aside):
        system.replace(path, aside)
        sync_folder(aside.parent)


def remove(path: Path) -> None:
    """Remove a file; an absent file is fine."""
    with contextlib.suppress(FileNotFoundError):
        system.unlink(path)
