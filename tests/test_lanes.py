"""A lane that is killed anywhere and resumed ends in the bytes of one that was not."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest
from corpora import contents, small_recipe
from crashes import seam, survives, ticking

from pipeline_lib.preparation import Settings, prepare
from pipeline_lib.recipe import Recipe


def every_batch() -> Settings:
    """Settings that commit behind every batch."""
    return Settings(encoder="tokenizers", checkpoint_interval=1, clock=ticking())


def tiny(folder: Path, **changes: Any) -> Recipe:
    """Some forty documents: four batches, three shards."""
    return small_recipe(folder, **({"max_documents": 50, "shard_tokens": 400} | changes))


def run(recipe: Recipe, target: Path, resume: Any = "auto") -> dict[str, Any]:
    return prepare(recipe, target, resume=resume, settings=every_batch())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("world")
    run(tiny(folder), folder / "golden")
    return folder, contents(folder / "golden")


@pytest.mark.parametrize("torn", [False, True], ids=["before", "within"])
def test_death_at_any_durable_call_and_again_during_the_resume_changes_no_byte(
    world: tuple[Path, dict[str, bytes]], tmp_path: Path, torn: bool
) -> None:
    recipe, target = tiny(world[0]), tmp_path / "out"
    for at in itertools.count(1):
        if survives(lambda: run(recipe, target), at, torn=torn):
            break
        survives(lambda: run(recipe, target), 1 + at * 37 % 60, torn=torn)
        run(recipe, target)
        assert contents(target) == world[1], f"after death at call {at}"
        assert [path.name for path in tmp_path.iterdir()] == ["out"], f"at call {at}"
        shutil.rmtree(target)
    assert at > 100
