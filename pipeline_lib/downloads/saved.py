"""Data sets on disk: sealed folders ``<data>/<name>/`` in the form of ``Dataset.save_to_disk``.

``save_to_disk`` alone loses whole files in a power cut, and ``load_from_disk`` reads a file that
was cut as if it were shorter. So the rows are written aside, opened again, counted and hashed, and
``manifest.json`` is written last. Without a manifest that matches, a data set does not exist;
files that the manifest does not list are ignored.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

import pyarrow as pa

from pipeline_lib import digest
from pipeline_lib.columns import Columns, check_columns
from pipeline_lib.downloads.registry import check_name
from pipeline_lib.errors import DamagedFile, SourceError
from pipeline_lib.storage import atomic, sealed_folder, typed_json
from pipeline_lib.storage.sealed_folder import SealedFile

if TYPE_CHECKING:
    import datasets

MANIFEST = "manifest.json"


class NotSaved(SourceError):
    """There is no data set of that name in the data folder."""


class OriginFile(TypedDict):
    """A file of the Hub; ``sha256`` is None if the Hub lists none."""

    name: str
    size: int
    sha256: str | None


class Origin(TypedDict, total=False):
    """Where the rows of a data set come from.

    ``limit`` is in rows (-1: all), ``max_bytes`` in UTF-8 bytes of text in the columns ``capped``.

    A sample that is made offline has no repository, so it has fewer of the fields.
    """

    path: str
    config: str | None
    splits: list[str]
    revision: str
    requested_revision: str
    licence: str
    gated: bool
    max_bytes: int | None
    capped: list[str] | None
    limit: int
    seed: int | None
    stated_rows: int | None
    files: list[OriginFile]


@dataclass(frozen=True)
class DatasetManifest:
    """The record of a saved data set; ``columns`` has the Arrow type of each, as a text."""

    manifest_version: Literal[1]
    origin: Origin
    rows: int
    columns: dict[str, str]
    files: list[SealedFile]


@dataclass(frozen=True)
class Saved:
    """A data set on disk and its manifest."""

    folder: Path
    manifest: DatasetManifest

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.manifest.rows

    @property
    def origin(self) -> Origin:
        """Where the rows come from."""
        return self.manifest.origin

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.manifest.files)

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of the content: rows, columns and the digests of the files."""
        files = {file.name: file.sha256 for file in self.manifest.files}
        return digest.of_json({"rows": self.rows, "columns": self.manifest.columns, "files": files})


def save(
    folder: Path,
    tables: Iterable[pa.Table],
    features: "datasets.Features",
    *,
    columns: Columns,
    origin: Origin,
    replace: bool = False,
) -> Saved:
    """Write a stream of tables as the data set ``folder``, all of it or nothing.

    Every table must have the schema ``features.arrow_schema``, which is checked against
    ``columns``. ``ColumnError``; ``OutputExists`` if the folder is there and ``replace`` is false;
    ``SourceError`` if there are no rows; ``Locked`` if another process saves it now.
    """
    check_name(folder.name)
    schema = features.arrow_schema
    check_columns(schema, columns, f"data set {folder.name}")
    with sealed_folder.building(folder) as staging:
        payload, stream = staging / "payload", staging / "rows.arrow"
        rows = _write_rows(stream, tables, schema, folder.name)
        _save_to_disk(stream, payload, features)
        atomic.remove(stream)
        _count_again(payload, rows)
        kinds = {field.name: str(field.type) for field in schema}
        files = sealed_folder.list_files(payload)
        manifest = DatasetManifest(1, origin, rows, kinds, files)
        sealed_folder.publish(payload, folder, MANIFEST, manifest, replace=replace)
    return find(folder)


def find(folder: Path) -> Saved:
    """The data set in a folder, if its manifest is there and its files have the right sizes.

    ``NotSaved`` if there is no folder; ``DamagedFile`` names the file that does not match.
    """
    if not folder.is_dir():
        raise NotSaved(
            f"{folder} does not exist; fetch it with: python download_data.py {folder.name}"
        )
    path = folder / MANIFEST
    if not path.is_file():
        raise DamagedFile(
            f"{folder} has no {MANIFEST}, so it was not completed by download_data.py; "
            f"{_remedy(folder)}"
        )
    try:
        manifest = typed_json.load_typed(path, DatasetManifest)
    except DamagedFile as error:
        raise DamagedFile(f"{error}; {_remedy(folder)}") from error
    sealed_folder.check_files(folder, manifest.files, _remedy(folder), full=False)
    return Saved(folder, manifest)


def load(folder: Path, columns: Columns | None = None, *, full: bool = False) -> "datasets.Dataset":
    """The memory-mapped data set, after its manifest and its columns were checked.

    With ``full``, every file is hashed first. ``NotSaved``, ``DamagedFile``, ``ColumnError``.
    """
    saved = find(folder)
    if full:
        sealed_folder.check_files(folder, saved.manifest.files, _remedy(folder), full=True)
    dataset = _open(folder)
    if len(dataset) != saved.rows:
        raise DamagedFile(
            f"{folder} holds {len(dataset):,} rows, its manifest says {saved.rows:,}; "
            f"{_remedy(folder)}"
        )
    check_columns(dataset.data.schema, columns or {}, str(folder))
    return dataset


def _remedy(folder: Path) -> str:
    return f"remove the folder {folder} and fetch the data set again"


def _write_rows(path: Path, tables: Iterable[pa.Table], schema: pa.Schema, name: str) -> int:
    rows = 0
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for table in tables:
            writer.write_table(table.cast(schema) if table.schema != schema else table)
            rows += table.num_rows
    if not rows:
        raise SourceError(f"data set {name} has no rows; check its config, splits and limit")
    return rows


def _save_to_disk(path: Path, payload: Path, features: "datasets.Features") -> None:
    """Bring the rows of one Arrow stream into the folder form.

    Its fingerprint is a digest of the rows, so equal rows give equal files.
    """
    import datasets
    from datasets.table import MemoryMappedTable

    dataset = datasets.Dataset(
        MemoryMappedTable.from_file(str(path)),
        info=datasets.DatasetInfo(features=features),
        fingerprint=digest.sha256_file(path)[:16],
    )
    with quiet_datasets():
        dataset.save_to_disk(str(payload))


def _count_again(payload: Path, rows: int) -> None:
    again = len(_open(payload))
    if again != rows:
        raise DamagedFile(f"{payload} holds {again:,} rows after {rows:,} were written; try again")


def _open(folder: Path) -> "datasets.Dataset":
    import datasets

    with quiet_datasets():
        try:
            return datasets.load_from_disk(str(folder), keep_in_memory=False)
        except Exception as error:  # whatever a library says of files that were changed
            raise DamagedFile(
                f"{folder} can not be opened ({type(error).__name__}: {error}); {_remedy(folder)}"
            ) from error


@contextlib.contextmanager
def quiet_datasets() -> Iterator[None]:
    """Switch off the progress bars of ``datasets``; a caller shows its own."""
    import datasets

    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
