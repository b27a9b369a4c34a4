"""Every module that is changed has tests, and the places are real."""

from pathlib import Path

import pytest

from tests.mutants.scope import CONCERNS, checked_by, module_path, modules

ROOT = Path(__file__).parents[2]


def test_every_name_leads_to_modules_and_each_has_tests() -> None:
    found = modules(ROOT)
    assert {"storage.atomic", "corpus.verify", "selection"} < set(found)
    for module in found:
        assert module_path(ROOT, module).is_file()
        assert all(test.is_file() for test in checked_by(ROOT, module))
    assert set(CONCERNS) == {"order", "commit", "masks", "keys", "counts"}


def test_a_module_without_a_test_file_has_those_of_the_modules_that_use_it(tmp_path: Path) -> None:
    room, tests = tmp_path / "pipeline_lib" / "room", tmp_path / "tests" / "room"
    for folder in (room, tests):
        folder.mkdir(parents=True)
    (room / "own.py").write_text("from pipeline_lib.room import inner\n")
    (room / "inner.py").write_text("from pipeline_lib.room.lost import thing\n")
    (room / "lost.py").write_text("thing = 1\n")
    (room / "alone.py").write_text("")
    (tests / "test_own.py").write_text("")
    for module in ("room.own", "room.inner", "room.lost"):
        assert checked_by(tmp_path, module) == [tests / "test_own.py"]
    with pytest.raises(ValueError, match=r"no test file belongs to room\.alone"):
        checked_by(tmp_path, "room.alone")
