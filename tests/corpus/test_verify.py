"""Whatever happens to a published folder, verify finds it and names it once, at its cause."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import REFERENCE, small_recipe
from crashes import flip
from numpy.typing import NDArray
from tampering import edit, replace_shard

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.layout import MANIFEST
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.verify import check_split, shards_by_lane, verify


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
    (out / MANIFEST).write_bytes(data[:-60])
    assert "not valid JSON" in verify(out)[0]
    (out / MANIFEST).unlink()
    assert MANIFEST in verify(out)[0]


def test_the_first_fault_of_each_kind_is_named(out: Path) -> None:
    flip(out / "train_00000.npy", -1)
    flip(out / "train_00001.npy", -1)
    (out / "stray").write_bytes(b"")
    faults = verify(out)
    assert len(faults) == 2 and "train_00000.npy" in faults[0] and "stray" in faults[1]


@pytest.mark.parametrize("position", [0, 2, 40, 300, -1, -2, -3, -40, -300])
def test_one_flipped_bit_anywhere_in_the_manifest_is_found(out: Path, position: int) -> None:
    flip(out / MANIFEST, position)
    assert len(verify(out)) == 1 and MANIFEST in verify(out)[0]


def test_any_flipped_bit_of_the_manifest_is_found(out: Path) -> None:
    data = (out / MANIFEST).read_bytes()
    for position in range(0, len(data), 7):
        flip(out / MANIFEST, position)
        assert verify(out), f"bit 0 of byte {position}"
        (out / MANIFEST).write_bytes(data)


def test_a_changed_measurement_is_found(out: Path) -> None:
    data = (out / MANIFEST).read_bytes()
    assert data.count(b'"elapsed_seconds": ') == 1
    (out / MANIFEST).write_bytes(data.replace(b'"elapsed_seconds": ', b'"elapsed_seconds": 1'))
    assert "does not match its own manifest_sha256" in verify(out)[0]


SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "a space more": lambda data: data.replace(b": ", b":  ", 1),
    "line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "no last line end": lambda data: data[:-1],
    "something behind": lambda data: data + b" ",
    "one line": lambda data: json.dumps(json.loads(data)).encode(),
    "a name twice": lambda data: data.replace(b'{\n "', b'{\n "format_version": 1,\n "', 1),
}


@pytest.mark.parametrize("how", SPELLINGS)
def test_a_manifest_that_is_spelled_otherwise_is_a_fault_of_its_own(out: Path, how: str) -> None:
    data = (out / MANIFEST).read_bytes()
    (out / MANIFEST).write_bytes(SPELLINGS[how](data))
    faults = verify(out)
    assert len(faults) == 1 and "is not spelled as it was written" in faults[0]
    assert manifest.load(out) == json.loads(data)


def test_a_digest_of_another_recipe_is_found(out: Path) -> None:
    edit(out, lambda fields: fields["recipe"].update(seed=2))
    assert verify(out) == [f"{out / MANIFEST}: recipe_digest is not the digest of the recipe"]


def test_rows_that_are_not_accounted_for_are_found(out: Path) -> None:
    edit(out, lambda fields: fields["counts"].update(skipped_null=2))
    assert verify(out) == [
        f"{out / MANIFEST}: 2 rows skipped as null in its counts, not 3, which it lists as left out"
    ]
    edit(out, lambda fields: fields["counts"].update(skipped_null=3))
    edit(out, lambda fields: fields["rows_left_out"].update(other=1))
    assert verify(out) == [f"{out / MANIFEST}: 120 rows were visited, 121 are accounted for"]


@pytest.mark.parametrize("change", [{"rows_visited": 119}, {"train_tokens": 1}, None])
def test_ends_of_lanes_that_do_not_add_up_are_found(
    out: Path, change: dict[str, int] | None
) -> None:
    edit(out, lambda f: f["lanes"][0].update(change) if change else f["lanes"].pop())
    assert verify(out) == [f"{out / MANIFEST}: the ends of its lanes do not add up to its counts"]


@pytest.mark.parametrize("name", ["counts", "recipe", "shards"])
def test_a_manifest_without_one_of_its_parts_is_found(out: Path, name: str) -> None:
    edit(out, lambda fields: fields.pop(name))
    (fault,) = verify(out)
    assert MANIFEST in fault and f"missing required field `{name}`" in fault


LEFT = [".DS_Store", "._train_00000.npy", "Thumbs.db", "desktop.ini", ".nfs000000012a"]


@pytest.mark.parametrize("name", LEFT)
def test_what_an_operating_system_leaves_is_warned_of_and_is_no_fault(
    out: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (out / name).write_bytes(b"\0")
    assert verify(out) == []
    assert f"{out / name} was left there by an operating system" in caplog.text


def test_names_that_only_resemble_those_are_strays(out: Path) -> None:
    for name in (".DS_Store2", "Thumbs.db.npy", "nfs0001"):
        (out / name).write_bytes(b"")
        assert f"{name} is not named by the manifest" in verify(out)[0]
        (out / name).unlink()


@pytest.fixture(scope="module", params=[1, 3], ids=["one lane", "three lanes"])
def lanes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    recipe = small_recipe(folder, lanes=request.param)
    prepare(recipe, folder / "out", options=REFERENCE)
    return folder / "out"


def check(out: Path, split: str = "train") -> dict[str, str]:
    return check_split(out, manifest.load(out), split, lambda name: None)


def test_a_sound_split_has_no_fault(lanes: Path) -> None:
    assert check(lanes) == check(lanes, "val") == {}


def test_shards_are_found_lane_by_lane(lanes: Path) -> None:
    found = manifest.load(lanes)
    for split, shards in found["shards"].items():
        parts = shards_by_lane(found, split)
        assert len(parts) == found["recipe"]["lanes"]
        assert [shard for part in parts for shard in part] == shards


def remove_an_end(tokens: NDArray[Any]) -> None:
    tokens[np.flatnonzero(tokens == 0)[0]] = 5


def move_an_end(tokens: NDArray[Any]) -> None:
    end = np.flatnonzero(tokens == 0)[-1]
    tokens[[end, end - 1]] = tokens[[end - 1, end]]


@pytest.fixture(scope="module")
def long_documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of seven tokens, so that most documents lie in three shards or more."""
    folder = tmp_path_factory.mktemp("long")
    prepare(
        small_recipe(folder, shard_tokens=7, max_documents=30), folder / "out", options=REFERENCE
    )
    return folder / "out"


@pytest.mark.parametrize("block", [1, 3, 7, 1 << 22])
def test_documents_over_many_shards_are_sound_however_the_shards_are_read(
    long_documents: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    shards = manifest.load(long_documents)["shards"]["train"]
    per_document = Counter(shard["first_document"] for shard in shards)
    assert per_document.most_common(1)[0][1] >= 3
    monkeypatch.setattr("pipeline_lib.corpus.verify._BLOCK", block)
    assert verify(long_documents) == []


def test_a_border_inside_a_document_of_many_shards_is_named(
    long_documents: Path, tmp_path: Path
) -> None:
    shutil.copytree(long_documents, tmp_path / "out")
    shards = manifest.load(long_documents)["shards"]["train"]
    number = next(n for n, shard in enumerate(shards) if shard["first_token"] > 7)
    edit(tmp_path / "out", lambda fields: fields["shards"]["train"][number].update(first_token=7))
    assert (
        f"{shards[number]['file']} is recorded to begin at token 7"
        in (check(tmp_path / "out")["border"])
    )


def test_an_id_beyond_the_vocabulary_is_named(out: Path) -> None:
    replace_shard(out, lambda tokens: tokens.__setitem__(3, 300))
    assert check(out) == {"id range": f"{out}/train_00000.npy: id 300 is not below 300"}


def test_a_missing_end_token_is_counted(out: Path) -> None:
    replace_shard(out, remove_an_end)
    assert check(out) == {"end tokens": "train: 97 end tokens for 98 documents"}


def test_a_sum_that_does_not_add_up_is_named(out: Path) -> None:
    edit(out, lambda fields: fields["counts"].update(train_tokens=1))
    assert check(out) == {"sum": "train: shards hold 2,837 tokens, 1 recorded"}


@pytest.mark.parametrize("name", ["first_document", "first_token"])
def test_a_record_of_another_document_border_is_named(out: Path, name: str) -> None:
    edit(out, lambda fields: fields["shards"]["train"][2].update({name: 77}))
    assert list(check(out)) == ["border"]
    assert "train_00002.npy is recorded to begin at token" in check(out)["border"]


def test_visited_rows_that_go_back_are_named(out: Path) -> None:
    edit(out, lambda fields: fields["shards"]["train"][2].update(first_row=0))
    assert list(check(out)) == ["row"]
    assert (
        "train_00002.npy is recorded to begin at visited row 0, but the shard"
        in (check(out)["row"])
    )


def test_an_end_that_moved_within_a_shard_is_found_at_the_next(out: Path) -> None:
    replace_shard(out, move_an_end)
    assert "train_00001.npy is recorded to begin at token" in check(out)["border"]


def test_a_last_document_without_its_end_is_named(out: Path) -> None:
    last = manifest.load(out)["shards"]["train"][-1]
    number = int(last["file"][-9:-4])
    replace_shard(out, move_an_end, number)
    assert check(out) == {"last": f"{out / last['file']} ends in the middle of a document"}


def test_a_short_shard_before_the_last_is_named(out: Path) -> None:
    replace_shard(out, lambda tokens: tokens[:-1], 1)
    assert (
        "train_00001.npy holds 499 tokens, but all shards except the last"
        in (check(out)["capacity"])
    )


NAMES: dict[str, Callable[[dict[str, Any]], object]] = {
    "led out": lambda fields: fields["shards"]["train"][1].update(file="../train_00001.npy"),
    "left out": lambda fields: fields["shards"]["train"].pop(1),
    "twice": lambda fields: fields["shards"]["train"].insert(1, fields["shards"]["train"][0]),
}


@pytest.mark.parametrize("how", NAMES)
def test_a_name_that_no_run_gives_is_one_fault(out: Path, how: str) -> None:
    edit(out, NAMES[how])
    assert "is not how a run names train shard 1" in check(out)["name"]
    assert set(check(out)) <= {"name", "sum"}


def test_a_damaged_shard_is_named_and_not_what_follows_from_it(out: Path) -> None:
    flip(out / "train_00001.npy", 200)
    assert list(check(out)) == ["shard"] and check(out, "val") == {}
