"""A small published folder, and a copy of it to be tampered with."""

import shutil
from pathlib import Path

import pytest
from corpora import REFERENCE, small_recipe

from pipeline_lib.corpus.prepare import prepare


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``corpus``, ``tokenizer`` and what was published of them, ``out``."""
    folder = tmp_path_factory.mktemp("world")
    prepare(small_recipe(folder), folder / "out", options=REFERENCE)
    return folder


@pytest.fixture
def out(world: Path, tmp_path: Path) -> Path:
    """A copy of the published folder."""
    shutil.copytree(world / "out", tmp_path / "out")
    return tmp_path / "out"
