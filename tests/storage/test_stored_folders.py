"""The keyed folders below a root: explained, found, listed, removed."""

import itertools
import os
from pathlib import Path

import pytest
from crashes import survives
from durability import broken_promises, unneeded_syncs
from keyed_folders import KEY, folder_with

from pipeline_lib.errors import Locked
from pipeline_lib.storage.keyed_folder import META, KeyedFolder
from pipeline_lib.storage.lock import FolderLock
from pipeline_lib.storage.stored_folders import UNREADABLE, explain, newest, prune, stored_caches


def explanation(root: Path, **changes: object) -> str:
    return explain(KeyedFolder(root, "sft", KEY | changes))


def test_the_explanation_says_what_differs_from_the_nearest_cache(tmp_path: Path) -> None:
    assert "there is no other sft cache" in explanation(tmp_path)
    folder_with(tmp_path, "sft", {"tok_sha": "c" * 64, "max_len": 1})
    near = folder_with(tmp_path, "sft", KEY)
    folder_with(tmp_path, "dpo", KEY | {"max_len": 513})
    text = explanation(tmp_path, max_len=1_024)
    assert text.endswith(f"because {near.path.name} has another max_len: 512 -> 1024")


def test_the_explanation_of_a_cache_that_is_there_says_so(tmp_path: Path) -> None:
    done = folder_with(tmp_path, "sft", KEY)
    assert explanation(tmp_path) == f"{done.path.name}: complete, used as it is"
    other = folder_with(tmp_path, "sft", KEY | {"max_len": 3}, complete=False)
    assert explanation(tmp_path, max_len=3) == f"{other.path.name}: unfinished, 5 done"


def test_of_several_caches_that_agree_in_what_is_known_the_newest_is_found(tmp_path: Path) -> None:
    assert newest(tmp_path, "sft", {}) is None
    folders = [
        folder_with(tmp_path, "sft", KEY | {"edit": n}, complete=n == 2).path for n in range(4)
    ]
    for age, folder in enumerate((folders[1], folders[3], folders[0], folders[2])):
        os.utime(folder / META, (age, age))
    found = newest(tmp_path, "sft", {"max_len": 512})
    assert found is not None and found.path == folders[2] and found.complete
    assert found.size == (folders[2] / META).stat().st_size
    other = newest(tmp_path, "sft", KEY | {"edit": 3})
    assert other is not None and other.path == folders[3] and not other.complete
    assert newest(tmp_path, "sft", {"max_len": 513}) is None
    assert newest(tmp_path, "dpo", KEY) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": 5, "complete": true}'])
def test_a_record_that_can_not_be_read_is_listed_and_serves_nobody(
    tmp_path: Path, text: str
) -> None:
    folder = folder_with(tmp_path, "sft", KEY)
    (folder.path / META).write_text(text)
    assert "there is no other" in explanation(tmp_path, max_len=2)
    assert newest(tmp_path, "sft", {}) is None
    assert stored_caches(tmp_path).column("state") == [UNREADABLE]


def test_pruning_removes_what_is_not_kept_and_lists_it(tmp_path: Path) -> None:
    kept = folder_with(tmp_path, "sft", KEY).path
    other = folder_with(tmp_path, "dpo", KEY, {"dpo_ids.bin": bytes(100)}, complete=False).path
    (tmp_path / "notes").mkdir()
    assert stored_caches(tmp_path).column("cache") == [other.name, kept.name]
    removed = prune(tmp_path, keep=[kept])
    assert removed.column("removed cache") == [other.name]
    assert removed.column("state") == ["unfinished"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", kept.name]


def test_an_interrupted_removal_leaves_nothing_that_looks_like_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path, "sft", KEY, {"sft_ids.bin": bytes(9)}).path
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("pipeline_lib.storage.folders.remove_tree", interrupt)
        prune(tmp_path, keep=[])
    assert (folder / "sft_ids.bin").exists() and not (folder / META).exists()
    assert stored_caches(tmp_path).rows == ()


def test_a_removal_that_died_at_any_call_leaves_whole_caches_or_none(tmp_path: Path) -> None:
    files = {f"{n}.bin": bytes(9) for n in range(4)}
    for at in itertools.count(1):
        root = tmp_path / str(at)
        for length in (1, 2):
            folder_with(root, "sft", KEY | {"max_len": length}, files)
        ended = survives(lambda root=root: prune(root, keep=[]), at, torn=True)
        for path in root.glob(f"*/{META}"):
            assert {*files} < {entry.name for entry in path.parent.iterdir()}
        prune(root, keep=[])
        assert stored_caches(root).rows == ()
        if ended:
            break
    assert at == 2 * 3 + 1


def interrupt(path: Path) -> None:
    raise KeyboardInterrupt


def test_a_cache_that_is_being_built_is_not_pruned(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "sft", KEY, complete=False).path
    with FolderLock(folder / "lock"), pytest.raises(Locked):
        prune(tmp_path, keep=[])
    assert folder.exists()


def test_no_cache_folder_is_no_caches(tmp_path: Path) -> None:
    assert stored_caches(tmp_path / "none").rows == ()


def test_after_a_power_cut_no_record_of_a_removed_cache_is_left(tmp_path: Path) -> None:
    def two_caches(number: int) -> Path:
        for length in (1, 2):
            key = KEY | {"max_len": length}
            folder_with(tmp_path / str(number), "sft", key, {"a.bin": b"1", "b.bin": b"2"})
        return tmp_path / str(number)

    root = two_caches(-1)
    assert broken_promises(root, lambda: prune(root, keep=[])) == []
    assert unneeded_syncs(two_caches, lambda root: prune(root, keep=[])) == []
