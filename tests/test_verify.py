"""Whatever happens to a published folder, verify finds it and names the file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import REFERENCE, rows, small_recipe, tokenizer_file, write_parquet
from crashes import flip
from hub.publish import byte_level_tokenizer

from pipeline_lib import digest
from pipeline_lib.preparing.preparation import prepare
from pipeline_lib.preparing.staging import MANIFEST
from pipeline_lib.preparing.verify import verify, verify_against_source
from pipeline_lib.shards import save_array
from pipeline_lib.sources import resolve_parquet_files
from pipeline_lib.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    prepare(small_recipe(folder), folder / "out", settings=REFERENCE)
    return folder


@pytest.fixture
def out(world: Path, tmp_path: Path) -> Path:
    shutil.copytree(world / "out", tmp_path / "out")
    return tmp_path / "out"


def edit(out: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest and seal it again, as a bug in the writer might have."""
    fields = json.loads((out / MANIFEST).read_bytes())
    change(fields)
    rest = {k: v for k, v in fields.items() if k not in ("content_sha256", "measured")}
    (out / MANIFEST).write_text(json.dumps(fields | {"content_sha256": digest.of_json(rest)}))


def replace_shard(out: Path, change: Callable[[np.ndarray[Any, Any]], object]) -> None:
    """Write the first training shard anew with other tokens and record its right hash."""
    path = out / "train_00000.npy"
    tokens = np.load(path)
    change(tokens)
    written = save_array(path, tokens)
    edit(out, lambda f: f["shards"]["train"][0].update(sha256=written.sha256))


def test_a_folder_as_it_was_published_has_no_fault_wherever_it_is(out: Path) -> None:
    seen: list[str] = []
    assert verify(out, seen.append) == []
    moved = out.rename(out.with_name("elsewhere"))
    assert verify(moved) == []
    assert seen == sorted(path.name for path in moved.glob("*.npy"))


@pytest.mark.parametrize("position", [0, 8, 60, 127, 128, 300, -2, -1])
@pytest.mark.parametrize("name", ["train_00000.npy", "train_00005.npy", "val_00000.npy"])
def test_one_flipped_bit_anywhere_in_a_shard_is_found(out: Path, name: str, position: int) -> None:
    flip(out / name, position)
    faults = verify(out)
    assert len(faults) == 1 and name in faults[0]


@pytest.mark.parametrize("size", [0, 1, 64, 127, 128, 500, -1, -2])
def test_a_shard_cut_at_any_length_is_found(out: Path, size: int) -> None:
    path = out / "train_00001.npy"
    path.write_bytes(path.read_bytes()[:size])
    assert "train_00001.npy has" in verify(out)[0]


def test_a_shard_that_grew_or_is_gone_is_found(out: Path) -> None:
    with (out / "train_00002.npy").open("ab") as file:
        file.write(b"\0")
    assert "train_00002.npy has" in verify(out)[0]
    (out / "train_00002.npy").unlink()
    assert "train_00002.npy is missing" in verify(out)[0]


def test_two_shards_that_changed_places_are_found(out: Path) -> None:
    (out / "train_00000.npy").rename(out / "tmp")
    (out / "train_00001.npy").rename(out / "train_00000.npy")
    (out / "tmp").rename(out / "train_00001.npy")
    assert "train_00000.npy: SHA-256 is" in verify(out)[0]


@pytest.mark.parametrize("name", ["notes.txt", "train_00009.npy", "folder/inside"])
def test_a_stray_file_is_found(out: Path, name: str) -> None:
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_bytes(b"")
    faults = verify(out)
    assert len(faults) == 1 and f"{name.split('/')[0]} is not named by the manifest" in faults[0]


def test_a_changed_or_missing_manifest_is_found(out: Path) -> None:
    data = (out / MANIFEST).read_bytes()
    (out / MANIFEST).write_bytes(data.replace(b'"rows_visited": 120', b'"rows_visited": 121'))
    assert "does not match its own content_sha256" in verify(out)[0]
    (out / MANIFEST).write_bytes(data[:-40])
    assert "not valid JSON" in verify(out)[0]
    (out / MANIFEST).unlink()
    assert MANIFEST in verify(out)[0]


def test_an_id_beyond_the_vocabulary_is_found(out: Path) -> None:
    replace_shard(out, lambda tokens: tokens.__setitem__(3, 300))
    assert "id 300 is not below 300" in " ".join(verify(out))


def test_a_missing_end_token_is_found(out: Path) -> None:
    def remove_one(tokens: np.ndarray[Any, Any]) -> None:
        tokens[np.flatnonzero(tokens == 0)[0]] = 5

    replace_shard(out, remove_one)
    assert verify(out) == ["train: 97 end tokens for 98 documents"]


def test_sums_that_do_not_add_up_are_found(out: Path) -> None:
    edit(out, lambda fields: fields["counts"].update(train_tokens=1))
    assert verify(out) == ["train: shards hold 2,837 tokens, 1 recorded"]


def test_the_first_fault_of_each_kind_is_named(out: Path) -> None:
    flip(out / "train_00000.npy", -1)
    flip(out / "train_00001.npy", -1)
    (out / "stray").write_bytes(b"")
    faults = verify(out)
    assert len(faults) == 2 and "train_00000.npy" in faults[0] and "stray" in faults[1]


def test_documents_decode_back_to_rows_of_the_source(world: Path) -> None:
    source = resolve_parquet_files(str(world / "corpus"))
    assert verify_against_source(world / "out", source, load_tokenizer(world / "tokenizer")) == []


def test_another_source_or_tokenizer_is_told_apart(world: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(world / "tokenizer")
    write_parquet(tmp_path / "corpus" / "a.parquet", rows(5))
    other = resolve_parquet_files(str(tmp_path / "corpus"))
    assert (
        "the folder was made from sha256:"
        in (verify_against_source(world / "out", other, tokenizer)[0])
    )
    wrong = load_tokenizer(tokenizer_file(tmp_path / "t", byte_level_tokenizer(vocab_size=299)))
    source = resolve_parquet_files(str(world / "corpus"))
    assert f"not {tokenizer.sha256}" in verify_against_source(world / "out", source, wrong)[0]


def test_a_document_that_is_no_row_of_the_source_is_named(world: Path, out: Path) -> None:
    tokens = np.load(out / "train_00000.npy")
    first = np.flatnonzero(tokens == 0)[0]
    values = load_tokenizer(world / "tokenizer")
    source = resolve_parquet_files(str(world / "corpus"))
    for token in range(40, 120):  # until the changed text still falls on the training side
        replace_shard(out, lambda found, token=token: found.__setitem__(first - 1, token))
        try:
            faults = verify_against_source(out, source, values)
        except Exception as error:  # it fell on the other side, which is a fault as well
            assert "decodes to a text of the other split" in str(error)
            continue
        assert "train_00000.npy, document 0: its text" in faults[0]
        assert "is not a row of the source" in faults[0]
        return
    raise AssertionError("no changed text fell on the training side")
