"""Keys of caches: where they lead, what differs, what can be removed."""

import os
from pathlib import Path
from typing import Any

import pytest

from pipeline_lib.caches.cachekey import (
    cache_folder,
    differences,
    explain,
    load_meta,
    newest,
    prune,
    stored_caches,
)
from pipeline_lib.durable import atomic
from pipeline_lib.errors import CacheError, DamagedFile, Locked
from pipeline_lib.lock import FolderLock

KEY = {"tok_sha": "a" * 64, "max_len": 512}


def make(root: Path, kind: str, key: dict[str, Any], *, complete: bool = True) -> Path:
    folder = cache_folder(root, kind, key)
    folder.mkdir(parents=True)
    atomic.save_json(folder / "meta.json", {"key": key, "complete": complete, "done": 5})
    return folder


def test_a_key_leads_to_one_folder_whatever_the_order_of_its_components(tmp_path: Path) -> None:
    turned = dict(reversed(KEY.items()))
    assert cache_folder(tmp_path, "sft", KEY) == cache_folder(tmp_path, "sft", turned)
    assert cache_folder(tmp_path, "sft", KEY | {"max_len": 513}).name.startswith("sft-")
    assert cache_folder(tmp_path, "sft", KEY | {"max_len": 513}) != cache_folder(
        tmp_path, "sft", KEY
    )


def test_differences_name_the_component_with_old_and_new_value() -> None:
    found = differences(KEY | {"old": 1}, KEY | {"tok_sha": "b" * 64, "new": 2})
    assert list(map(str, found)) == [
        "tok_sha: aaaaaaaaaaaa -> bbbbbbbbbbbb",
        "new: None -> 2",
        "old: 1 -> None",
    ]


def test_the_explanation_says_what_differs_from_the_nearest_cache(tmp_path: Path) -> None:
    assert "there is no other sft cache" in explain(tmp_path, "sft", KEY)
    make(tmp_path, "sft", {"tok_sha": "c" * 64, "max_len": 1})
    near = make(tmp_path, "sft", KEY)
    make(tmp_path, "dpo", KEY | {"max_len": 513})
    text = explain(tmp_path, "sft", KEY | {"max_len": 1_024})
    assert text.endswith(f"because {near.name} has another max_len: 512 -> 1024")


def test_of_several_caches_that_agree_in_what_is_known_the_newest_is_found(tmp_path: Path) -> None:
    assert newest(tmp_path, "sft", {}) is None
    folders = [make(tmp_path, "sft", KEY | {"edit": n}, complete=n == 2) for n in range(4)]
    for age, folder in enumerate((folders[1], folders[3], folders[0], folders[2])):
        os.utime(folder / "meta.json", (age, age))
    found = newest(tmp_path, "sft", {"max_len": 512})
    assert found is not None and found.folder == folders[2] and found.complete
    assert found.size == (folders[2] / "meta.json").stat().st_size
    other = newest(tmp_path, "sft", KEY | {"edit": 3})
    assert other is not None and other.folder == folders[3] and not other.complete
    assert newest(tmp_path, "sft", {"max_len": 513}) is None
    assert newest(tmp_path, "dpo", KEY) is None


def test_the_explanation_of_a_cache_that_is_there_says_so(tmp_path: Path) -> None:
    folder = make(tmp_path, "sft", KEY)
    assert explain(tmp_path, "sft", KEY) == f"{folder.name}: complete, used as it is"
    other = make(tmp_path, "sft", KEY | {"max_len": 3}, complete=False)
    assert explain(tmp_path, "sft", KEY | {"max_len": 3}) == (
        f"{other.name}: unfinished, 5 conversations are committed"
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": 5}', "{}"])
def test_a_damaged_record_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    folder = make(tmp_path, "sft", KEY)
    (folder / "meta.json").write_text(text)
    with pytest.raises(DamagedFile, match=r"meta.json.*shutil.rmtree"):
        load_meta(folder, KEY)
    assert "there is no other" in explain(tmp_path, "sft", KEY | {"max_len": 2})
    assert stored_caches(tmp_path).column("state") == ["damaged"]


def test_a_record_of_another_key_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path, "sft", KEY)
    with pytest.raises(CacheError, match=r"another key .max_len: 512 -> 9"):
        load_meta(folder, KEY | {"max_len": 9})


def test_pruning_removes_what_is_not_kept_and_lists_it(tmp_path: Path) -> None:
    kept, gone = make(tmp_path, "sft", KEY), make(tmp_path, "dpo", KEY, complete=False)
    (tmp_path / "notes").mkdir()
    (gone / "dpo_ids.bin").write_bytes(bytes(100))
    assert stored_caches(tmp_path).column("cache") == [gone.name, kept.name]
    removed = prune(tmp_path, keep=[kept])
    assert removed.column("removed cache") == [gone.name]
    assert removed.column("state") == ["unfinished"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", kept.name]


def test_a_cache_that_is_being_built_is_not_pruned(tmp_path: Path) -> None:
    folder = make(tmp_path, "sft", KEY, complete=False)
    with FolderLock(folder / "lock"), pytest.raises(Locked):
        prune(tmp_path, keep=[])
    assert folder.exists()


def test_no_cache_folder_is_no_caches(tmp_path: Path) -> None:
    assert stored_caches(tmp_path / "none").rows == ()
