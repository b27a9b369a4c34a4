"""When a source's stored conversations are used again, and what is said when they are not."""

import importlib
import itertools
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from chat_world import (
    CHATS,
    ListRows,
    as_it_is,
    normalized,
    numbered_chat,
    source_rows,
    turns,
)

from pipeline_lib.chat import probe
from pipeline_lib.chat.normalize import Normalized, normalize
from pipeline_lib.chat.rows import SourceRows
from pipeline_lib.chat.source_store import Choice, SourceStore
from pipeline_lib.storage.cache_options import CacheOptions


class Hidden:
    """A value that the walk does not see, as code that is written in another language would be."""

    cut = 99


def hidden(row: dict[str, Any]) -> Any:
    # a constant for the key: the name is looked up in what the interpreter keeps
    held = sys.modules[__name__].Hidden.cut if row else 0
    return turns(row["result"][0]["content"], row["result"][1]["content"][:held])


@pytest.fixture
def only_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk finds an edit of ``Hidden`` by no means, and has nothing to complain about."""
    source_store = importlib.import_module("pipeline_lib.chat.source_store")
    real = source_store.code_identity

    def blind(root: Any) -> Any:
        found = real((turns,)) if root is hidden else real(root)
        return found._replace(unresolved=())

    monkeypatch.setattr(source_store, "code_identity", blind)


def test_an_edit_that_no_key_shows_is_found_by_running_rows_again_and_shown(
    tmp_path: Path,
    only_the_probe: None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    first = normalized(tmp_path, CHATS, hidden)
    texts = [*first.train, *first.val]
    assert [*normalized(tmp_path, CHATS, hidden).train] == list(first.train)
    assert "one: 40 rows run again give what is stored" in caplog.text
    monkeypatch.setattr(Hidden, "cut", 6)
    again = normalized(tmp_path, CHATS, hidden)
    assert again.folders == first.folders
    assert all(conversation[1]["content"] == "answer" for conversation in again.train)
    assert texts != [*again.train, *again.val]
    assert "it gives another result than stored (row " in caplog.text
    assert "assistant: answer no " in caplog.text and "assistant: answer'" in caplog.text
    assert [*normalized(tmp_path, CHATS, hidden).train] == list(again.train)


def test_rows_of_before_an_edit_that_no_key_shows_are_not_continued(
    tmp_path: Path, only_the_probe: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count()

    def clock() -> float:
        if next(asked) == 20:
            raise KeyboardInterrupt
        return 0.0

    with pytest.raises(KeyboardInterrupt):
        normalize({"one": CHATS}, {"one": hidden}, CacheOptions(tmp_path, clock=clock), seed=7)
    monkeypatch.setattr(Hidden, "cut", 6)
    done = normalize({"one": CHATS}, {"one": hidden}, CacheOptions(tmp_path), seed=7)
    assert {c[1]["content"] for c in [*done.train, *done.val]} == {"answer"}


class Counter:
    """A normalizer that gives each row another number each time; the key is always the same."""

    number = itertools.count()


def numbering(row: dict[str, Any]) -> Any:
    return turns(row["result"][0]["content"], f"answer {next(Counter.number)}")


def test_a_normalizer_that_is_not_repeatable_is_named_and_kept_by_its_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_store = importlib.import_module("pipeline_lib.chat.source_store")
    real = source_store.code_identity
    monkeypatch.setattr(
        source_store, "code_identity", lambda root: real(turns if root is numbering else root)
    )
    first = normalized(tmp_path, CHATS, numbering)
    assert "one: row " in caplog.text and " gave two results (first: " in caplog.text
    assert "not repeatable" in caplog.text
    caplog.clear()
    again = normalized(tmp_path, CHATS, numbering)
    assert list(again.train) == list(first.train)
    assert "one: its normalizer is not repeatable" in caplog.text


@pytest.fixture
def my_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the user."""
    (tmp_path / "code").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    (tmp_path / "code" / "my_rules.py").write_text("LIMIT = 3\ndef cut(x):\n    return x[:LIMIT]\n")
    monkeypatch.delitem(sys.modules, "my_rules", raising=False)
    return importlib.import_module("my_rules")


def by_rules(row: dict[str, Any]) -> Any:
    import my_rules  # type: ignore[import-not-found]

    question, answer = row["result"]
    return turns(question["content"], my_rules.cut(answer["content"]))


def run_with_an_edit(root: Path, edit: Any) -> Normalized:
    """A run in which ``edit`` is called after some rows."""

    def on_progress(name: str, done: int, total: int) -> None:
        edit()

    rows = source_rows([{"result": numbered_chat(i)} for i in range(300)])
    cache = CacheOptions(root, on_progress=on_progress)
    return normalize({"one": rows}, {"one": by_rules}, cache, seed=7, val_fraction=0.25)


def answers(done: Normalized) -> set[str]:
    return {conversation[1]["content"] for conversation in [*done.train, *done.val]}


def test_code_that_was_changed_while_rows_were_normalised_is_said_and_never_reused(
    tmp_path: Path, my_rules: Any, caplog: pytest.LogCaptureFixture
) -> None:
    mixed = run_with_an_edit(tmp_path, lambda: setattr(my_rules, "LIMIT", 6))
    assert answers(mixed) == {"ans", "answer"}
    assert "was changed while its rows were normalised" in caplog.text
    assert "by_rules/my_rules.LIMIT, by_rules/my_rules.cut/LIMIT" in caplog.text
    my_rules.LIMIT = 3  # the key of the mixed rows
    caplog.clear()
    assert answers(run_with_an_edit(tmp_path, lambda: None)) == {"ans"}
    assert "was changed while its rows were normalised" in caplog.text
    my_rules.LIMIT = 6
    assert answers(run_with_an_edit(tmp_path, lambda: None)) == {"answer"}


def test_a_helper_that_is_loaded_again_while_rows_are_normalised_counts_too(
    tmp_path: Path, my_rules: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    def reload() -> None:
        text = "LIMIT = 3\ndef cut(x):\n    return x[:LIMIT] + ' edited'\n"
        (tmp_path / "code" / "my_rules.py").write_text(text)
        importlib.reload(my_rules)

    run_with_an_edit(tmp_path, reload)
    assert "was changed while its rows were normalised" in caplog.text
    assert answers(run_with_an_edit(tmp_path, lambda: None)) == {"ans edited"}


def test_another_choice_of_columns_is_another_key(tmp_path: Path) -> None:
    rows = CHATS.data.rows  # type: ignore[attr-defined]
    folders = {
        normalized(tmp_path, SourceRows(ListRows(rows), "same", False, columns)).folders
        for columns in (("result",), ("result", "other"))
    }
    assert len(folders) == 2


def key_folder(
    *,
    name: str = "one",
    fingerprint: str = "same",
    tree: bool = False,
    normalizer: Any = as_it_is,
    **choice: Any,
) -> Path:
    rows = SourceRows(ListRows([]), fingerprint, tree)
    chosen = Choice(**({"seed": 7, "val_fraction": 0.25, "limit": -1} | choice))
    return SourceStore(name, rows, normalizer, CacheOptions(Path("cache")), chosen).folder.path


@pytest.mark.parametrize(
    "change",
    [
        {"name": "two"}, {"fingerprint": "other"}, {"tree": True}, {"normalizer": by_rules},
        {"seed": 8}, {"val_fraction": 0.5}, {"limit": 9},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_what_decides_the_stored_rows_is_in_their_key(change: dict[str, Any]) -> None:
    assert key_folder() == key_folder() != key_folder(**change)


@pytest.mark.parametrize(
    ("module", "name"),
    [("chat.source_store", "STORE_VERSION"), ("selection", "SELECTION_VERSION")],
)
def test_another_version_of_a_rule_is_another_key(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    before = key_folder()
    monkeypatch.setattr(importlib.import_module(f"pipeline_lib.{module}"), name, 99)
    assert key_folder() != before


def test_a_normalizer_that_can_not_be_pinned_down_runs_again_each_time_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for cut in (99, 6):
        Hidden.cut, before = cut, Hidden.cut
        try:
            done = normalized(tmp_path, CHATS, hidden)
        finally:
            Hidden.cut = before
    assert {c[1]["content"] for c in [*done.train, *done.val]} == {"answer"}
    assert "can not be pinned down (hidden" in caplog.text
    assert "one row" not in caplog.text and "than stored" not in caplog.text


def test_a_first_run_normalises_the_rows_of_the_probe_twice(tmp_path: Path) -> None:
    read: list[int] = []

    class Watched(ListRows):
        def __getitem__(self, places: list[int]) -> dict[str, list[Any]]:
            read.extend(places)
            return super().__getitem__(places)

    rows = [{"result": numbered_chat(i)} for i in range(1_000)]
    normalized(tmp_path, SourceRows(Watched(rows), "thousand"))
    twice = [place for place in set(read) if read.count(place) == 2]
    assert len(read) == 1_000 + len(twice) and len(twice) == probe.GOAL
