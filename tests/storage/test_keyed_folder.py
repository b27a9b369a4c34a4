"""Keys of folders: where they lead, what differs, what a record must be."""

from pathlib import Path
from typing import Any

import pytest
from keyed_folders import KEY, folder_with

from pipeline_lib.errors import CacheError
from pipeline_lib.storage import atomic
from pipeline_lib.storage.keyed_folder import META, KeyedFolder, differences


def test_a_key_leads_to_one_folder_whatever_the_order_of_its_components(tmp_path: Path) -> None:
    turned = dict(reversed(KEY.items()))
    here = KeyedFolder(tmp_path, "sft", KEY).path
    assert here == KeyedFolder(tmp_path, "sft", turned).path
    assert here.name.startswith("sft-")
    assert here != KeyedFolder(tmp_path, "sft", KEY | {"max_len": 513}).path
    assert here != KeyedFolder(tmp_path, "dpo", KEY).path


def test_differences_name_the_component_with_old_and_new_value() -> None:
    found = differences(KEY | {"old": 1}, KEY | {"tok_sha": "b" * 64, "new": 2})
    assert list(map(str, found)) == [
        "tok_sha: aaaaaaaaaaaa -> bbbbbbbbbbbb",
        "new: None -> 2",
        "old: 1 -> None",
    ]


def test_nothing_is_recorded_before_the_first_commit(tmp_path: Path) -> None:
    assert KeyedFolder(tmp_path, "sft", KEY).load(int) is None


def test_a_record_comes_back_as_it_was_committed(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "sft", KEY, {"ids.bin": b"abc"}, details=7)
    record = folder.load(int)
    assert record is not None
    assert (record.done, record.complete, record.details) == (5, True, 7)
    assert record.files["ids.bin"].size == 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": 5}', "{}"])
def test_a_damaged_record_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    folder = folder_with(tmp_path, "sft", KEY)
    (folder.path / META).write_text(text)
    with pytest.raises(CacheError, match=r"meta.json.*shutil.rmtree"):
        folder.load(Any)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [("done", "5"), ("complete", None), ("files", {"a": {"size": 1.5}}), ("details", "seven")],
)
def test_a_field_of_another_kind_is_named_with_its_file(
    tmp_path: Path, field: str, value: Any
) -> None:
    folder = folder_with(tmp_path, "sft", KEY, details=7)
    fields = atomic.load_json(folder.path / META)
    atomic.save_json(folder.path / META, fields | {field: value})
    with pytest.raises(CacheError, match=rf"meta.json does not hold .*\$\.{field}"):
        folder.load(int)


def test_a_record_of_another_key_is_refused(tmp_path: Path) -> None:
    here = folder_with(tmp_path, "sft", KEY)
    there = folder_with(tmp_path, "sft", KEY | {"max_len": 9})
    (here.path / META).write_bytes((there.path / META).read_bytes())
    with pytest.raises(CacheError, match=r"another key .max_len: 9 -> 512"):
        here.load(int)


@pytest.mark.parametrize("complete", [True, False])
def test_files_are_checked_against_the_record(tmp_path: Path, complete: bool) -> None:
    folder = folder_with(tmp_path, "sft", KEY, {"a": b"abc", "b": b"de"}, complete=complete)
    record, path = folder.load(int), folder.path / "b"
    assert record is not None
    folder.check(record, full=True)
    path.write_bytes(b"dX")
    folder.check(record, full=False)
    with pytest.raises(CacheError, match=r"b was changed, from byte 0 on; remove the folder"):
        folder.check(record, full=True)
    path.write_bytes(b"d")
    with pytest.raises(CacheError, match=r"b has 1 bytes, 2 were recorded; remove the folder"):
        folder.check(record, full=False)
    path.write_bytes(b"de and more")
    if complete:
        with pytest.raises(CacheError, match="has 11 bytes, 2 were recorded"):
            folder.check(record, full=False)
    else:
        folder.check(record, full=True)


def test_another_form_of_the_record_is_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = folder_with(tmp_path, "sft", KEY)
    monkeypatch.setattr("pipeline_lib.storage.keyed_folder.RECORD_VERSION", 99)
    there = KeyedFolder(tmp_path, "sft", KEY)
    assert there.path != here.path and there.load(int) is None
