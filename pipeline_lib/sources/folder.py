"""A folder of Parquet files as a source: listed by footers, sealed file by file.

The identity of the folder is the list of all relative names, sizes and footer digests. A file is
sealed when it is first opened: its size, SHA-256 and time of change are recorded then.
"""

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from pipeline_lib import digest
from pipeline_lib.errors import DamagedFile, SourceChanged
from pipeline_lib.records import FOLDER, SourceFile
from pipeline_lib.sources import parquet
from pipeline_lib.sources.folder_files import files_to_read

_LOG = logging.getLogger(__name__)


@dataclass
class FolderSource:
    """The Parquet files of a folder's training split, in all its subfolders.

    ``config``: of the card (``README.md``) in the folder.
    """

    location: str
    config: str | None = None
    dataset: str = field(default=FOLDER, init=False)
    revision: str = field(default="", init=False)
    files: list[SourceFile] = field(default_factory=list, init=False)
    seals: dict[str, SourceFile] = field(default_factory=dict)
    _footers: dict[str, parquet.Footer] = field(default_factory=dict, init=False)
    _counted: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        root = Path(self.location)
        names = files_to_read(root, self.config)
        self._footers = {name: parquet.footer(root / name) for name in names}
        self.files = [
            SourceFile(name=name, size=footer.size, footer=footer.sha256)
            for name, footer in self._footers.items()
        ]
        listing = [[name, *footer] for name, footer in self._footers.items()]
        self.revision = f"sha256:{digest.of_json(listing)}"

    def path(self, name: str) -> Path:
        """The file itself, sealed on first use; ``SourceChanged`` if it differs from its seal."""
        path = Path(self.location, name)
        if not path.is_file():
            raise SourceChanged(f"{path} is gone; bring it back, then go on with --resume")
        stat = path.stat()
        seal = self.seals.get(name)
        if seal and _same_times(stat, seal):
            return path
        self._check_listed(name, path)
        found = digest.sha256_file(path)
        if seal and seal["sha256"] != found:
            raise SourceChanged(
                f"{path} changed since the run opened it: SHA-256 was {seal['sha256']}, is "
                f"{found}; restore the file, or start a fresh run in another output folder"
            )
        if not _same_times(path.stat(), fresh := _seal(name, stat, found)):
            raise SourceChanged(f"{path} is being written; wait until it is whole, and start again")
        if seal is None:
            self._warn_of_a_copy(fresh)
        self.seals[name] = fresh
        return path

    def check_unchanged(self, name: str) -> None:
        """``SourceChanged`` if a file that was sealed has other content now; one look at its size
        and its time of change tells, unless they moved."""
        try:
            moved = not _same_times(Path(self.location, name).stat(), self.seals[name])
        except FileNotFoundError:
            moved = True
        if moved:
            self.path(name)

    def sha256(self, name: str) -> str:
        """Hex SHA-256 of a file that was opened."""
        return self.seals[name]["sha256"]

    def _warn_of_a_copy(self, seal: SourceFile) -> None:
        for other in list(self.seals.values()):
            if other["sha256"] == seal["sha256"]:
                _LOG.warning(
                    "%s: %s and %s have the same content, so its rows are read twice; remove one "
                    "of them if that is not meant", self.location, other["name"], seal["name"],
                )  # fmt: skip
                return

    def _check_listed(self, name: str, path: Path) -> None:
        """A file that is opened late must still be the file that the source was pinned with."""
        listed = self._footers[name]
        try:
            now = parquet.footer(path)
        except DamagedFile as error:
            raise SourceChanged(f"{path} changed since the run began: {error}") from error
        if listed != now:
            raise SourceChanged(
                f"{path} changed since the run began: {listed.size:,} bytes with footer "
                f"{listed.sha256[:12]}, now {now.size:,} with {now.sha256[:12]}; restore it, or "
                "start a fresh run in another output folder"
            )

    def rows_by_file(self) -> dict[str, int] | None:
        """Rows of each file, from its footer."""
        return {file["name"]: self._rows(file["name"]) for file in self.files}

    def rows_of(self, names: Iterable[str]) -> int | None:
        """Rows in some files, from their footers."""
        return sum(map(self._rows, names))

    def _rows(self, name: str) -> int:
        if name not in self._counted:
            self._counted[name] = int(pq.read_metadata(Path(self.location, name)).num_rows)
        return self._counted[name]


def _seal(name: str, stat: os.stat_result, sha256: str) -> SourceFile:
    return SourceFile(name=name, size=stat.st_size, sha256=sha256, mtime_ns=stat.st_mtime_ns)


def _same_times(stat: os.stat_result, seal: SourceFile) -> bool:
    return (stat.st_size, stat.st_mtime_ns) == (seal["size"], seal["mtime_ns"])
