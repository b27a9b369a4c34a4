"""A name stands for a folder or a Hub dataset, and is refused in words where it is neither."""

from pathlib import Path

import pytest
from corpora import folder_of, write_parquet
from loopback_hub.publish import parquet_bytes

from pipeline_lib.errors import ColumnError, SourceError
from pipeline_lib.sources.folder import FolderSource
from pipeline_lib.sources.resolve import check_text_columns, resolve_parquet_files


@pytest.mark.parametrize("name", ["/no/such/folder", "./missing", "~/corpus", "a/b/c", "wikitext"])
def test_what_is_neither_folder_nor_dataset_name_is_refused(name: str) -> None:
    with pytest.raises(SourceError, match="neither an existing folder nor a Hub dataset"):
        resolve_parquet_files(name)


def test_the_column_is_checked_in_every_local_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "corpus")
    (folder / "part-9.parquet").write_bytes(parquet_bytes([{"text": 1}]))
    with pytest.raises(ColumnError, match=r"part-9\.parquet: column `text` is int64"):
        check_text_columns(FolderSource(str(folder)), "text")


def test_a_folder_has_no_config_and_no_branches(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", ["one"])
    with pytest.raises(ValueError, match="leave --config out"):
        resolve_parquet_files(str(tmp_path), "default")
    with pytest.raises(ValueError, match="leave --revision out"):
        resolve_parquet_files(str(tmp_path), None, "main")
