"""Data sets on disk exist with a matching manifest or not at all."""

import itertools
import json
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest
from durability import broken_promises

from pipeline_lib import digest
from pipeline_lib.downloads import saved
from pipeline_lib.errors import ColumnError, DamagedFile, Locked, OutputExists, SourceError
from pipeline_lib.storage import system_calls
from pipeline_lib.storage.lock import FolderLock

COLUMNS = {"text": pa.string()}
ORIGIN = {"path": "acme/chat", "limit": -1}


def table(*texts: str | None) -> pa.Table:
    return pa.table({"text": pa.array(texts, pa.string()), "n": pa.array(range(len(texts)))})


def save(folder: Path, *tables: pa.Table, **more: Any) -> saved.Saved:
    features = datasets.Features.from_arrow_schema(tables[0].schema)
    more = {"columns": COLUMNS, "origin": ORIGIN} | more
    return saved.save(folder, tables, features, **more)


def test_what_is_saved_comes_back_memory_mapped_with_its_manifest(tmp_path: Path) -> None:
    done = save(tmp_path / "chat", table("a", None), table("c"))
    loaded = saved.load(tmp_path / "chat", COLUMNS, full=True)
    assert loaded["text"][:] == ["a", None, "c"]
    assert loaded.cache_files
    assert (done.rows, done.origin["path"]) == (3, "acme/chat")
    assert done.manifest.columns == {"text": "string", "n": "int64"}
    assert [path.name for path in tmp_path.iterdir()] == ["chat"]


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    first = save(tmp_path / "one" / "chat", table("a", "b"))
    second = save(tmp_path / "two" / "chat", table("a", "b"))
    assert first.manifest == second.manifest and first.fingerprint == second.fingerprint
    assert save(tmp_path / "chat", table("a", "c")).fingerprint != first.fingerprint


def test_an_existing_folder_is_only_replaced_when_asked(tmp_path: Path) -> None:
    save(tmp_path / "chat", table("a"))
    with pytest.raises(OutputExists):
        save(tmp_path / "chat", table("b"))
    assert saved.load(tmp_path / "chat")["text"][:] == ["a"]
    save(tmp_path / "chat", table("b"), replace=True)
    assert saved.load(tmp_path / "chat")["text"][:] == ["b"]


def test_what_is_not_there_names_the_command_that_fetches_it(tmp_path: Path) -> None:
    with pytest.raises(saved.NotSaved, match=r"download_data.py chat"):
        saved.load(tmp_path / "chat")


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(str(tmp_path / "chat"))
    with pytest.raises(DamagedFile, match=r"has no manifest.json"):
        saved.load(tmp_path / "chat")


@pytest.mark.parametrize("damage", ["cut", "missing", "longer"])
def test_a_file_that_does_not_match_is_named(tmp_path: Path, damage: str) -> None:
    save(tmp_path / "chat", table(*"abc" * 50))
    data = next((tmp_path / "chat").glob("*.arrow"))
    if damage == "missing":
        data.unlink()
    else:
        data.write_bytes(data.read_bytes()[:-8] if damage == "cut" else data.read_bytes() + b"x")
    with pytest.raises(DamagedFile, match=rf"{data.name}.*remove the folder"):
        saved.load(tmp_path / "chat")


def test_a_flipped_bit_is_found_by_the_full_check(tmp_path: Path) -> None:
    save(tmp_path / "chat", table("a", "b"))
    data = next((tmp_path / "chat").glob("*.arrow"))
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"SHA-256 is .* was recorded; remove the folder"):
        saved.load(tmp_path / "chat", full=True)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"manifest_version": 9}', '{"rows": 1}'])
def test_a_damaged_manifest_is_never_taken_for_an_absent_one(tmp_path: Path, text: str) -> None:
    save(tmp_path / "chat", table("a"))
    (tmp_path / "chat" / "manifest.json").write_text(text)
    with pytest.raises(
        DamagedFile, match=r"manifest.*remove the folder .* fetch the data set again"
    ):
        saved.load(tmp_path / "chat")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"rows": "3"}, r"`int`, got `str` - at `\$.rows`"),
        ({"manifest_version": 2}, r"Invalid enum value 2 - at `\$.manifest_version`"),
        ({"files": [{"name": "x", "size": 1}]}, r"field `sha256` - at `\$.files\[0\]`"),
        ({"origin": {"limit": "all"}}, r"at `\$.origin.limit`"),
    ],
)
def test_a_field_of_another_kind_is_named(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    save(tmp_path / "chat", table("a"))
    path = tmp_path / "chat" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedFile, match=field):
        saved.find(tmp_path / "chat")


def test_the_form_of_the_manifest_is_the_same_for_ever(tmp_path: Path) -> None:
    """Folders that earlier versions saved are accepted, and stay what they are."""
    done = save(tmp_path / "chat", table("a"))
    text = (tmp_path / "chat" / "manifest.json").read_text()
    files = [vars(file) for file in done.manifest.files]
    written = {"manifest_version": 1, "origin": ORIGIN, "rows": 1}
    written |= {"columns": {"text": "string", "n": "int64"}, "files": files}
    assert text == json.dumps(written, indent=1) + "\n"
    assert [file["name"] for file in files] == [
        "data-00000-of-00001.arrow",
        "dataset_info.json",
        "state.json",
    ]
    by_hand = {"rows": 1, "columns": written["columns"]}
    by_hand["files"] = {file["name"]: file["sha256"] for file in files}
    assert done.fingerprint == digest.of_json(by_hand)


def test_files_the_manifest_does_not_name_change_nothing(tmp_path: Path) -> None:
    before = save(tmp_path / "chat", table("a")).fingerprint
    (tmp_path / "chat" / "cache-0123456789abcdef.arrow").write_bytes(b"stray")
    (tmp_path / "chat" / ".DS_Store").write_bytes(b"\0")
    assert saved.find(tmp_path / "chat").fingerprint == before
    (tmp_path / "chat").rename(tmp_path / "moved")
    assert saved.find(tmp_path / "moved").fingerprint == before
    assert len(saved.load(tmp_path / "moved")) == 1


def test_columns_are_checked_on_save_and_both_schemas_are_shown(tmp_path: Path) -> None:
    with pytest.raises(ColumnError) as caught:
        save(tmp_path / "chat", table("a"), columns={"content": pa.string(), "n": pa.string()})
    for part in ("`content` is absent, expected string", "`n` is int64", "text: string"):
        assert part in str(caught.value)
    assert not (tmp_path / "chat").exists()


def test_columns_are_checked_on_load(tmp_path: Path) -> None:
    save(tmp_path / "chat", table("a"))
    with pytest.raises(ColumnError, match="`text` is string, expected int64"):
        saved.load(tmp_path / "chat", {"text": pa.int64()})


def test_nothing_is_left_when_there_are_no_rows(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no rows"):
        save(tmp_path / "chat", table())
    assert not (tmp_path / "chat").exists()


def test_an_interrupted_save_is_begun_again(tmp_path: Path) -> None:
    left = tmp_path / "chat.incomplete"
    (left / "payload").mkdir(parents=True)
    (left / "payload" / "data.arrow").write_bytes(b"half")
    (left / "rows.arrow").write_bytes(b"half")
    save(tmp_path / "chat", table("a"))
    assert saved.load(tmp_path / "chat", full=True)["text"][:] == ["a"]
    assert not left.exists()


class Cut(BaseException):
    """Stands for the end of the process: no code of ours may catch it."""


def _fail_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the ``number``-th call that changes the disk not happen."""
    calls = itertools.count(1)

    def cut_or_do(true: Any, *arguments: Any) -> Any:
        if next(calls) >= number:
            raise Cut
        return true(*arguments)

    for name in ("write", "fsync", "replace", "rename_new", "unlink", "mkdir", "rmtree"):
        call = partial(cut_or_do, getattr(system_calls.system, name))
        monkeypatch.setattr(system_calls.system, name, call)


@pytest.mark.parametrize("replace", [False, True])
def test_a_cut_at_any_call_leaves_all_or_nothing_and_the_next_run_completes(
    tmp_path: Path, replace: bool
) -> None:
    for number in itertools.count(1):
        folder = tmp_path / str(number) / "chat"
        folder.parent.mkdir()
        if replace:
            save(folder, table("old"))
        with pytest.MonkeyPatch.context() as patch:
            _fail_at(patch, number)
            try:
                save(folder, table("new"), replace=replace)
            except Cut:
                finished = False
            else:
                finished = True
        if folder.exists():
            assert saved.load(folder, full=True)["text"][:] in (["old"], ["new"])
        save(folder, table("new"), replace=folder.exists())
        assert saved.load(folder, full=True)["text"][:] == ["new"]
        assert not folder.with_name("chat.incomplete").exists()
        if finished:
            break
    assert number > 10


def test_two_processes_do_not_save_the_same_data_set(tmp_path: Path) -> None:
    (tmp_path / "chat.incomplete").mkdir()
    with FolderLock(tmp_path / "chat.incomplete" / "lock"), pytest.raises(Locked):
        save(tmp_path / "chat", table("a"))


def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="can not name a data set"):
        save(tmp_path / "Chat Data", table("a"))


def _name_of(fd: int) -> str:
    """The name behind a descriptor, where the system tells."""
    return Path(f"/proc/self/fd/{fd}").resolve().name


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_every_file_is_synced_before_the_manifest_and_the_manifest_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    true_fsync, true_rename = system_calls.system.fsync, system_calls.system.rename_new

    def fsync(fd: int) -> None:
        events.append(_name_of(fd))
        true_fsync(fd)

    def rename(source: str, target: str) -> None:
        events.append("RENAME")
        true_rename(source, target)

    monkeypatch.setattr(system_calls.system, "fsync", fsync)
    monkeypatch.setattr(system_calls.system, "rename_new", rename)
    save(tmp_path / "chat", table("a"))
    data, manifest = events.index("data-00000-of-00001.arrow"), events.index("manifest.json.tmp")
    assert data < manifest < events.index("RENAME")
    assert {"state.json", "dataset_info.json", "payload"} <= set(events[:manifest])
    assert tmp_path.name in events[events.index("RENAME") :]


def test_the_manifest_is_json_a_person_can_read(tmp_path: Path) -> None:
    save(tmp_path / "chat", table("a"))
    manifest = json.loads((tmp_path / "chat" / "manifest.json").read_text())
    assert manifest["origin"] == ORIGIN
    assert {"name", "size", "sha256"} == set(manifest["files"][0])


def test_after_a_power_cut_a_data_set_is_the_old_one_or_the_new(tmp_path: Path) -> None:
    for text in ("a", "b"):
        faults = broken_promises(
            tmp_path, lambda text=text: save(tmp_path / "chat", table(text), replace=True)
        )
        assert faults == []
