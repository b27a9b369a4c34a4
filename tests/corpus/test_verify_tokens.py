"""What is wrong with the tokens of a split is named once, at its cause."""

import shutil
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
from pipeline_lib.corpus.prepare import prepare
from pipeline_lib.corpus.verify_tokens import by_lane, check_split


@pytest.fixture(scope="module", params=[1, 3], ids=["one lane", "three lanes"])
def lanes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    recipe = small_recipe(folder, lanes=request.param)
    prepare(recipe, folder / "out", options=REFERENCE)
    return folder / "out"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    prepare(small_recipe(folder), folder / "out", options=REFERENCE)
    return folder / "out"


@pytest.fixture
def out(world: Path, tmp_path: Path) -> Path:
    shutil.copytree(world, tmp_path / "out")
    return tmp_path / "out"


def check(out: Path, split: str = "train") -> dict[str, str]:
    return check_split(out, manifest.load(out), split, lambda name: None)


def test_a_sound_split_has_no_fault(lanes: Path) -> None:
    assert check(lanes) == check(lanes, "val") == {}


def test_shards_are_found_lane_by_lane(lanes: Path) -> None:
    found = manifest.load(lanes)
    for split, shards in found["shards"].items():
        parts = by_lane(found, split)
        assert len(parts) == found["recipe"]["lanes"]
        assert [shard for part in parts for shard in part] == shards


def remove_an_end(tokens: NDArray[Any]) -> None:
    tokens[np.flatnonzero(tokens == 0)[0]] = 5


def move_an_end(tokens: NDArray[Any]) -> None:
    end = np.flatnonzero(tokens == 0)[-1]
    tokens[[end, end - 1]] = tokens[[end - 1, end]]


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
