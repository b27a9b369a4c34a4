"""Data sets on disk: ``<data>/<name>/`` in the form of ``Dataset.save_to_disk``, plus a manifest.

``save_to_disk`` alone loses whole files in a power cut, and ``load_from_disk`` takes a file
that was cut for a shorter one. So rows go to a staging folder, are re-opened and counted,
every file and folder is fsynced, ``manifest.json`` (origin, rows, columns, files with sizes
and SHA-256) is written last, and one rename makes the folder appear. Without a manifest that
matches, a data set does not exist; files the manifest does not name are ignored.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline_lib import digest
from pipeline_lib.columns import Columns, check_columns
from pipeline_lib.downloads.registry import check_name
from pipeline_lib.errors import DamagedFile, SourceError
from pipeline_lib.storage import atomic, folders
from pipeline_lib.storage.lock import FolderLock

if TYPE_CHECKING:
    import datasets

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1


class NotSaved(SourceError):
    """There is no data set of that name in the data folder."""


@dataclass(frozen=True)
class Saved:
    """A data set on disk and what its manifest says."""

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.manifest["rows"])

    @property
    def origin(self) -> Mapping[str, Any]:
        """Where the rows come from: path, config, splits, revision, licence, limit ..."""
        origin: Mapping[str, Any] = self.manifest["origin"]
        return origin

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(int(entry["size"]) for entry in self.manifest["files"])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content: rows, columns and the digests of the files that hold them."""
        named = {entry["name"]: entry["sha256"] for entry in self.manifest["files"]}
        return digest.of_json(
            {"rows": self.rows, "columns": self.manifest["columns"], "files": named}
        )


def save(
    folder: Path,
    tables: Iterable[pa.Table],
    features: "datasets.Features",
    *,
    columns: Columns,
    origin: Mapping[str, Any],
    replace: bool = False,
) -> Saved:
    """Write a stream of tables as the data set ``folder``, all of it or nothing.

    Every table must have the schema ``features.arrow_schema``, checked against ``columns``.
    ``ColumnError``; ``OutputExists`` if the folder is there and not to be ``replace``d;
    ``SourceError`` if there are no rows; ``Locked`` if another process saves it now.
    """
    check_name(folder.name)
    check_columns(features.arrow_schema, columns, f"data set {folder.name}")
    staging = folder.with_name(folder.name + ".incomplete")
    folders.make_folder(staging)
    with FolderLock(staging / "lock"):
        _sweep(staging)
        payload = staging / "payload"
        rows = _write_rows(staging / "rows.arrow", tables, features, folder.name)
        _save_to_disk(staging / "rows.arrow", payload, features)
        atomic.remove(staging / "rows.arrow")
        _count_again(payload, rows)
        folders.sync_tree(payload)
        atomic.save_json(payload / MANIFEST, _manifest(payload, features, rows, origin))
        if replace:
            folders.remove_tree(folder)
        folders.publish_folder(payload, folder)
        folders.remove_tree(staging)
    return find(folder)


def find(folder: Path) -> Saved:
    """The data set in a folder, if its manifest is there and its files have the right sizes.

    ``NotSaved`` if there is nothing; ``DamagedFile`` names the file that does not match.
    """
    if not folder.is_dir():
        raise NotSaved(
            f"{folder} does not exist; fetch it with: python download_data.py {folder.name}"
        )
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise DamagedFile(
            f"{folder} has no {MANIFEST}, so it was not completed by download_data.py; remove the "
            "folder and fetch the data set again"
        )
    saved = Saved(folder, _checked(manifest, atomic.load_json(manifest)))
    _check_files(saved, full=False)
    return saved


def load(folder: Path, columns: Columns | None = None, *, full: bool = False) -> "datasets.Dataset":
    """The memory-mapped data set, after its manifest and its columns were checked.

    With ``full``, every file is hashed first. ``NotSaved``, ``DamagedFile``, ``ColumnError``.
    """
    import datasets

    saved = find(folder)
    if full:
        _check_files(saved, full=True)
    with quiet_datasets():
        dataset = datasets.load_from_disk(str(folder), keep_in_memory=False)
    if len(dataset) != saved.rows:
        raise DamagedFile(
            f"{folder} holds {len(dataset):,} rows, its manifest says {saved.rows:,}; remove the "
            "folder and fetch the data set again"
        )
    check_columns(dataset.data.schema, columns or {}, str(folder))
    return dataset


def _sweep(staging: Path) -> None:
    """Remove what an interrupted save left: nothing in it was ever committed."""
    for entry in staging.iterdir():
        if entry.is_dir():
            folders.remove_tree(entry)
        elif entry.name != "lock":
            atomic.remove(entry)


def _write_rows(
    path: Path, tables: Iterable[pa.Table], features: "datasets.Features", name: str
) -> int:
    rows, schema = 0, features.arrow_schema
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for table in tables:
            writer.write_table(table.cast(schema) if table.schema != schema else table)
            rows += table.num_rows
    if not rows:
        raise SourceError(f"data set {name} has no rows; check its config, splits and limit")
    return rows


def _save_to_disk(path: Path, payload: Path, features: "datasets.Features") -> None:
    """Rows from one Arrow stream to the folder form; the fingerprint depends on them alone."""
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
    import datasets

    with quiet_datasets():
        again = len(datasets.load_from_disk(str(payload), keep_in_memory=False))
    if again != rows:
        raise DamagedFile(f"{payload} holds {again:,} rows after {rows:,} were written; try again")


def _manifest(
    payload: Path, features: "datasets.Features", rows: int, origin: Mapping[str, Any]
) -> dict[str, Any]:
    files = sorted(path for path in payload.rglob("*") if path.is_file())
    return {
        "manifest_version": MANIFEST_VERSION,
        "origin": dict(origin),
        "rows": rows,
        "columns": {field.name: str(field.type) for field in features.arrow_schema},
        "files": [
            {
                "name": path.relative_to(payload).as_posix(),
                "size": path.stat().st_size,
                "sha256": digest.sha256_file(path),
            }
            for path in files
        ],
    }


def _checked(path: Path, manifest: Any) -> Mapping[str, Any]:
    known = isinstance(manifest, dict) and manifest.get("manifest_version") == MANIFEST_VERSION
    missing = {"origin", "rows", "columns", "files"} - set(manifest if known else ())
    if not known or missing:
        raise DamagedFile(
            f"{path} is not a manifest of version {MANIFEST_VERSION}"
            + (f" (it lacks {', '.join(sorted(missing))})" if known else "")
            + "; remove the folder and fetch the data set again"
        )
    return dict(manifest)


def _check_files(saved: Saved, *, full: bool) -> None:
    for entry in saved.manifest["files"]:
        path = saved.folder / entry["name"]
        found = path.stat().st_size if path.is_file() else None
        if found != entry["size"]:
            there = "is missing" if found is None else f"has {found:,} bytes"
            raise DamagedFile(
                f"{path} {there}, the manifest says {entry['size']:,} bytes; remove the folder "
                f"{saved.folder} and fetch the data set again"
            )
        if full and digest.sha256_file(path) != entry["sha256"]:
            raise DamagedFile(
                f"{path} has another SHA-256 than its manifest says; remove the folder "
                f"{saved.folder} and fetch the data set again"
            )


@contextlib.contextmanager
def quiet_datasets() -> Iterator[None]:
    """No progress bars from inside the library; a caller shows its own."""
    import datasets

    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
