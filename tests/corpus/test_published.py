"""Opening a published shard folder: what is checked before a token is read."""

from pathlib import Path

import numpy as np
import pytest
from published_folders import publish

from pipeline_lib.corpus.published import open_shards
from pipeline_lib.corpus.shards import save_array
from pipeline_lib.errors import DamagedFile, SourceError

BORDER = {"first_document": 0, "first_token": 0}


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_shards_are_opened_in_order_with_their_dtype(tmp_path: Path, dtype: str) -> None:
    folder = publish(tmp_path / "out", [1, 2, 3], [4], dtype=dtype)
    _, shards = open_shards(folder, "train", full=True)
    assert [shard.array.tolist() for shard in shards] == [[1, 2, 3], [4]]
    assert shards[0].array.dtype == dtype


def test_an_edited_manifest_is_refused(tmp_path: Path) -> None:
    folder = publish(tmp_path / "out", [1])
    text = (folder / "metadata.json").read_text()
    (folder / "metadata.json").write_text(text.replace('"tokens": 1', '"tokens": 2'))
    with pytest.raises(DamagedFile, match="own content_sha256"):
        open_shards(folder, "train", full=False)


def test_a_folder_without_a_manifest_is_no_shard_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no finished shard folder"):
        open_shards(tmp_path, "train", full=False)


def test_an_unknown_split_is_named_beside_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"split is 'test'.*'train', 'val'"):
        open_shards(publish(tmp_path / "out", [1]), "test", full=False)


@pytest.mark.parametrize("size", [None, 0, 1, 64, 127, 131, 135])
def test_a_shard_of_another_size_is_named(tmp_path: Path, size: int | None) -> None:
    folder = publish(tmp_path / "out", [1, 2, 3])
    path = folder / "train_00000.npy"
    data = path.read_bytes() + b"\0"
    path.unlink()
    if size is not None:
        path.write_bytes(data[:size])
    with pytest.raises(DamagedFile, match="train_00000"):
        open_shards(folder, "train", full=False)


def test_a_changed_token_is_found_by_a_full_check(tmp_path: Path) -> None:
    folder = publish(tmp_path / "out", [1, 2, 3])
    save_array(folder / "train_00000.npy", np.array([1, 2, 4], "<u2"))
    open_shards(folder, "train", full=False)
    with pytest.raises(DamagedFile, match="SHA-256 is"):
        open_shards(folder, "train", full=True)


@pytest.mark.parametrize("name", ["../train.npy", "/etc/passwd", "a/b.npy"])
def test_a_manifest_that_leads_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    shards = {"train": [{"file": name, "tokens": 1, "sha256": "", **BORDER}]}
    folder = publish(tmp_path / "out", shards=shards)
    with pytest.raises(DamagedFile, match="leads out of it"):
        open_shards(folder, "train", full=False)
