"""A corpus of real text from what Python and pip can give, and longer versions of a corpus.

Documentation and translations of a few pinned source distributions come first, then the
standard library, then what is installed beside the project, until there is enough. Files are cut
into pages at blank lines; a page that was seen before is left out. The order is that of the
pages' digests, so the same files give the same corpus.
"""

import hashlib
import os
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ENOUGH = 277_000_000
LEAST = 250_000_000
FILES = 8
PAGE = 3_000
SDISTS = ("Django==5.2.8", "Sphinx==8.2.3", "docutils==0.22.3", "celery==5.5.3")
MORE = ("SQLAlchemy==2.0.44", "Twisted==25.5.0", "sympy==1.14.0", "buildbot==4.3.0")
PROSE = (".rst", ".txt", ".md", ".po", ".html")
CODE = (".py", ".pyi")
_LARGEST_FILE = 4 << 20


def real_text(cache: Path) -> Path:
    """The folder of the built corpus; says how many megabytes of text it has."""
    folder = cache / "corpus"
    if not (folder / "built.txt").exists():
        print("building a corpus of real text", flush=True)
        pages, size = _enough(_sources(cache / "sdists"))
        if size < LEAST:
            raise SystemExit(f"found only {size / 1e6:.0f} MB of text; give --corpus FOLDER")
        folder.mkdir(parents=True, exist_ok=True)
        texts = [text for _, text in sorted(pages.items())]
        _write(folder, (texts[part::FILES] for part in range(FILES)), "text")
        (folder / "built.txt").write_text(f"{len(texts):,} pages, {size / 1e6:.0f} MB\n")
    print(f"corpus: {(folder / 'built.txt').read_text().strip()} of text", flush=True)
    return folder


def _sources(cache: Path) -> Iterator[tuple[str, bytes]]:
    yield from _distributions(cache, SDISTS)
    yield from _tree(Path(sysconfig.get_path("stdlib")), skip="site-packages")
    yield from _tree(Path(sysconfig.get_path("purelib")), skip="__pycache__")
    yield from _distributions(cache, MORE)


def _distributions(cache: Path, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    cache.mkdir(parents=True, exist_ok=True)
    for name in names:
        package, _, version = name.partition("==")
        archive = cache / f"{package}-{version}.tar.gz"
        if not archive.exists():
            _download(name, cache, archive)
        if archive.exists():
            yield from _archive(archive)


def _download(name: str, cache: Path, archive: Path) -> None:
    pip = cache / "pip"  # an environment may come without one
    if not pip.exists():
        subprocess.run([sys.executable, "-m", "venv", pip], check=True)
    command = [pip / "bin" / "python", "-m", "pip", "download", "-q", "--no-deps"]
    if subprocess.run([*command, "--no-binary", ":all:", "-d", cache, name]).returncode:
        print(f"pip could not fetch the source of {name}; going on without it", flush=True)
        return
    wanted = archive.name.lower()
    for path in cache.iterdir():  # pip keeps the index's spelling
        if path.name.lower() == wanted:
            path.rename(archive)


def _archive(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            file = archive.extractfile(member) if member.isfile() else None
            if file and member.name.endswith(PROSE + CODE) and member.size <= _LARGEST_FILE:
                yield member.name, file.read()


def _tree(root: Path, skip: str) -> Iterator[tuple[str, bytes]]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != skip)
        for name in sorted(names):
            path = Path(folder, name)
            if name.endswith(PROSE + CODE) and path.stat().st_size <= _LARGEST_FILE:
                yield str(path), path.read_bytes()


def _enough(files: Iterable[tuple[str, bytes]]) -> tuple[dict[bytes, str], int]:
    pages: dict[bytes, str] = {}
    size = 0
    for _, data in files:
        for page in _pages(data):
            encoded = page.encode()
            digest = hashlib.sha256(encoded).digest()
            if digest not in pages:
                pages[digest] = page
                size += len(encoded)
        if size >= ENOUGH:
            break
    return pages, size


def _pages(data: bytes) -> Iterator[str]:
    """The text in pages of about ``PAGE`` characters, cut at blank lines."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    page: list[str] = []
    size = 0
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        page.append(paragraph)
        size += len(paragraph)
        if size >= PAGE:
            yield "\n\n".join(page).strip("\n")
            page, size = [], 0
    if size >= PAGE // 20:
        yield "\n\n".join(page).strip("\n")


def _write(folder: Path, parts: Iterable[list[str]], column: str) -> None:
    for number, texts in enumerate(parts):
        table = pa.table({column: pa.array(texts, pa.string())})
        pq.write_table(table, folder / f"part-{number:02}.parquet", compression="zstd")


def label(folder: Path) -> str:
    """Eight hex digits that stand for the names and sizes of a corpus."""
    listing = [(path.name, path.stat().st_size) for path in sorted(folder.glob("*.parquet"))]
    return hashlib.sha256(repr(listing).encode()).hexdigest()[:8]


def some_texts(folder: Path, column: str, size: int) -> Iterator[str]:
    """Texts from the start of every file, about ``size`` bytes in all."""
    files = sorted(folder.glob("*.parquet"))
    for path in files:
        left = size // len(files)
        for batch in pq.ParquetFile(path).iter_batches(256, columns=[column]):
            for text in batch.column(0).to_pylist():
                if left > 0:
                    left -= len(text.encode())
                    yield text


TIMES = 10
"""Length of the long corpus, in corpora."""


def repeated(folder: Path, column: str, times: int, cache: Path) -> Path:
    """The corpus ``times`` over; every copy of a document begins with a number of its own."""
    target = cache / f"corpus-{label(folder)}-times-{times}"
    if (target / "built.txt").exists():
        return target
    print(f"writing the corpus {times} times over", flush=True)
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.glob("*.parquet")):
        texts = pq.read_table(path, columns=[column]).column(0)
        for copy in range(times):
            numbered = pc.binary_join_element_wise(f"{copy}", texts, " ")
            table = pa.table({column: numbered})
            name = target / f"{path.stem}-{copy:02}.parquet"
            pq.write_table(table, name, compression="zstd", compression_level=1)
    (target / "built.txt").write_text(f"{times} times {folder}\n")
    return target
