"""Two corpora that are made once: one of real text, and a given one several times over.

The real text is documentation and translations of a few pinned source distributions, then the
standard library, then what is installed beside the project, until there is enough. Files are cut
into pages at blank lines, and each page is kept once. The pages are ordered by their digests, so
the same files give the same corpus.
"""

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from cache import CACHE, made_once
from given import files

ENOUGH, FILES = 277_000_000, 8
SDISTS = ("Django==5.2.8", "Sphinx==8.2.3", "docutils==0.22.3", "celery==5.5.3")
ENDINGS, LARGEST_FILE = (".rst", ".txt", ".md", ".po", ".html", ".py", ".pyi"), 4 << 20
PAGE = re.compile(r"(?s).{3000,}?(?=\n\n)|.{150,}")


def real_text() -> Path:
    """The folder of the corpus of real text."""
    return made_once("corpus", _write_real_text)


def _write_real_text(folder: Path) -> None:
    pages, size = _pages()
    for number in range(FILES):
        table = pa.table({"text": pa.array(pages[number::FILES], pa.string())})
        pq.write_table(table, folder / f"part-{number:02}.parquet", compression="zstd")
    print(f"{len(pages):,} pages, {size / 1e6:.0f} MB of text", flush=True)


def _pages() -> tuple[list[str], int]:
    """Different pages in the order of their digests, and their size in bytes."""
    pages: dict[bytes, str] = {}
    size = 0
    for content in _contents():
        text = content.decode(errors="ignore").replace("\r\n", "\n")
        for page in (found.strip("\n") for found in PAGE.findall(text)):
            digest = hashlib.sha256(page.encode()).digest()
            size += len(page.encode()) if digest not in pages else 0
            pages[digest] = page
        if size >= ENOUGH:
            break
    return [text for _, text in sorted(pages.items())], size


def _contents() -> Iterator[bytes]:
    """Contents of files, in the order in which they are wanted."""
    for name in SDISTS:
        folder = CACHE / "sdists" / name
        if not list(folder.glob("*.tar.gz")):
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary=:all:"]
            subprocess.run([*pip, "-d", folder, name])  # if it fails, there is other text
        for path in folder.glob("*.tar.gz"):
            yield from _archived(path)
    yield from _beneath(Path(sysconfig.get_path("stdlib")), skip="site-packages")
    yield from _beneath(Path(sysconfig.get_path("purelib")), skip="__pycache__")


def _archived(path: Path) -> Iterator[bytes]:
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            file = archive.extractfile(member) if member.isfile() else None
            if file and member.name.endswith(ENDINGS) and member.size <= LARGEST_FILE:
                yield file.read()


def _beneath(root: Path, skip: str) -> Iterator[bytes]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != skip)
        for path in (Path(folder, name) for name in sorted(names)):
            if path.name.endswith(ENDINGS) and path.stat().st_size <= LARGEST_FILE:
                yield path.read_bytes()


def repeated(corpus: Path, column: str, times: int) -> Path:
    """A corpus ``times`` over; every copy of a document begins with the number of the copy."""

    def write(folder: Path) -> None:
        for path in files(corpus):
            texts = pq.read_table(path, columns=[column]).column(0)
            for copy in range(times):
                table = pa.table({column: pc.binary_join_element_wise(f"{copy}", texts, " ")})
                target = folder / f"{path.stem}-{copy:02}.parquet"
                pq.write_table(table, target, compression="zstd", compression_level=1)

    return made_once(f"corpus-{label(corpus)}-times-{times}", write)


def label(corpus: Path) -> str:
    """Eight hex digits that stand for the names and sizes of the files."""
    listing = [(path.name, path.stat().st_size) for path in files(corpus)]
    return hashlib.sha256(repr(listing).encode()).hexdigest()[:8]
