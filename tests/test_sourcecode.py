"""The identity of a function: what changes it, what does not, what can not be pinned down."""

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline_lib.chats.sourcecode import CodeIdentity, code_identity, literal_text

BASE = """
import re
from pipeline_lib.chats.turns import tidy

LIMIT = 3
WORD = re.compile("a+")

def helper(text):
    return text[:LIMIT]

def norm(row):
    return [helper(part) for part in WORD.split(row["text"])]
"""
NUMBER = itertools.count()


def load(folder: Path, source: str) -> dict[str, Any]:
    """The names of a module that is neither installed nor part of the library."""
    path = folder / f"cell_{next(NUMBER)}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("notebook_cell", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


@pytest.fixture
def identity(tmp_path: Path) -> Callable[[str], CodeIdentity]:
    return lambda source: code_identity(load(tmp_path, source)["norm"])


def test_equal_source_has_an_equal_identity(identity: Callable[[str], CodeIdentity]) -> None:
    assert identity(BASE) == identity(BASE)
    assert identity(BASE).unresolved == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ('compile("a+")', 'compile("b+")'),
        ("text[:LIMIT]", "text[LIMIT:]"),
        ('row["text"]', 'row["body"]'),
        ("def norm(row):", "def norm(row):\n    # a comment"),
    ],
)
def test_whatever_the_function_reaches_changes_its_identity(
    identity: Callable[[str], CodeIdentity], old: str, new: str
) -> None:
    assert identity(BASE).sha256 != identity(BASE.replace(old, new)).sha256


def test_what_it_does_not_name_does_not_matter(identity: Callable[[str], CodeIdentity]) -> None:
    assert identity(BASE) == identity(BASE + "\nOTHER = 5\n\ndef other():\n    return OTHER\n")


def test_an_object_that_is_no_literal_can_not_be_pinned_down(
    identity: Callable[[str], CodeIdentity],
) -> None:
    found = identity(BASE.replace("LIMIT = 3", "LIMIT = object()"))
    assert found.unresolved == ("norm/helper/LIMIT (object)",)


def test_a_function_without_source_can_not_be_pinned_down() -> None:
    names: dict[str, Any] = {}
    exec("def norm(row): return row", names)
    assert "source not found" in code_identity(names["norm"]).unresolved[0]


def test_functions_that_name_each_other_end(identity: Callable[[str], CodeIdentity]) -> None:
    source = "def other(x):\n    return norm(x)\n\ndef norm(x):\n    return other(x)\n"
    assert identity(source).unresolved == ()


def test_enclosed_variables_and_defaults_count(identity: Callable[[str], CodeIdentity]) -> None:
    source = "def make(n):\n    def norm(row, k=n):\n        return row[n]\n    return norm\n"
    assert identity(source + "norm = make(1)").sha256 != identity(source + "norm = make(2)").sha256


def test_an_own_module_counts_by_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    for number in (1, 2):
        name = f"own_words_{number}"
        (tmp_path / f"{name}.py").write_text(f"WORD = {number}\n")
        source = f"import {name} as own\n\ndef norm(row):\n    return own.WORD\n"
        found.append(code_identity(load(tmp_path, source)["norm"]))
    assert found[0].sha256 != found[1].sha256
    assert not found[0].unresolved


def test_sets_and_dicts_have_one_spelling() -> None:
    assert literal_text({"b", "a"}) == literal_text({"a", "b"})
    assert literal_text({"a": [1, (2.5, None)]}) == "dict('a', list(1, tuple(2.5, None)))"
    assert literal_text([object()]) is None
    assert literal_text({object()}) is None
