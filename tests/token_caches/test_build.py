"""The one commit rule of caches: when, how far, and what a crash or an interrupt leaves."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_world import contents
from crashes import Killed, seam, survives, ticking
from durability import broken_promises

from pipeline_lib.errors import CacheError, EncoderMismatch, Locked
from pipeline_lib.storage import atomic, system_calls
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.lock import FolderLock
from pipeline_lib.token_caches.build import MISMATCH, Cache, CacheRows, CacheSpec, open_or_build

FILES = ("ids.bin", "mask.bin")


def encode(start: int, stop: int, held: Mapping[str, int]) -> CacheRows:
    assert held == {"ids.bin": 12 * start, "mask.bin": start}
    rows = np.arange(start, stop, dtype=np.int32)
    counts = {"one": {"rows": len(rows), "sum": int(rows.sum())}}
    return CacheRows({"ids.bin": np.repeat(rows, 3), "mask.bin": rows.astype(np.int8)}, counts)


def cache_spec(total: int = 23, batch: int = 5, encode: Any = encode, **key: Any) -> CacheSpec:
    return CacheSpec("test", {"total": total} | key, FILES, total, batch, encode, lambda: None)


def build(root: Path, cache_spec: CacheSpec, **options: Any) -> Cache:
    return open_or_build(CacheOptions(root, **options), cache_spec)


def test_a_cache_holds_every_batch_in_order_and_the_sum_of_the_counts(tmp_path: Path) -> None:
    cache = build(tmp_path, cache_spec())
    ids = np.fromfile(cache.path("ids.bin"), np.int32)
    assert ids.tolist() == np.repeat(np.arange(23), 3).tolist()
    assert cache.counts == {"one": {"rows": 23, "sum": 253}}
    assert cache.size("mask.bin") == 23


def test_a_complete_cache_is_used_without_encoding_or_locking(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first = build(tmp_path, cache_spec())
    with FolderLock(first.folder / "lock"):
        again = build(tmp_path, cache_spec(encode=None))
    assert again.fingerprint == first.fingerprint
    assert again.explanation.endswith("complete, used as it is")
    assert caplog.messages[-1] == again.explanation  # said once, and only after the check


def test_a_changed_key_is_another_folder_and_says_why(tmp_path: Path) -> None:
    old = build(tmp_path, cache_spec(max_len=1))
    new = build(tmp_path, cache_spec(max_len=2))
    assert new.folder != old.folder
    assert new.explanation.endswith(f"because {old.folder.name} has another max_len: 1 -> 2")
    assert build(tmp_path, cache_spec(max_len=1, encode=None)).folder == old.folder


def test_nothing_to_encode_gives_empty_files(tmp_path: Path) -> None:
    cache = build(tmp_path, cache_spec(total=0, encode=None))
    assert cache.size("ids.bin") == 0
    assert build(tmp_path, cache_spec(total=0, encode=None)).counts == {}


def test_the_clock_decides_when_to_commit(tmp_path: Path) -> None:
    seen = []

    def note_commit(name: str, done: int, total: int) -> None:
        metas = list(tmp_path.glob("*/meta.json"))
        seen.append(atomic.load_json(metas[0])["done"] if metas else 0)

    build(tmp_path, cache_spec(), clock=ticking(), save_every_seconds=2, on_progress=note_commit)
    assert seen == [0, 0, 10, 10, 20]  # a look a batch, so every second batch is two seconds


def test_commits_leave_no_trace_in_what_is_written(tmp_path: Path) -> None:
    often = build(tmp_path / "often", cache_spec(), save_every_seconds=0)
    once = build(tmp_path / "once", cache_spec())
    assert contents(often.folder) == contents(once.folder)


def test_a_build_that_crashed_at_any_call_and_again_ends_with_the_same_bytes(
    tmp_path: Path,
) -> None:
    def building(root: Path) -> Callable[[], Cache]:
        return lambda: build(root, cache_spec(), save_every_seconds=0)

    with seam() as whole:
        building(tmp_path / "whole")()
    for at in range(1, whole.calls + 1):
        root = tmp_path / str(at)
        assert not survives(building(root), at, torn=True)
        survives(building(root), at % 13 + 1)
        with seam():
            building(root)()
        assert contents(root) == contents(tmp_path / "whole")


@pytest.mark.parametrize("at", range(1, 5))
def test_an_interrupt_commits_whole_batches_and_the_next_run_goes_on_there(
    tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def interrupted(start: int, stop: int, held: Mapping[str, int]) -> CacheRows:
        if start == 5 * at:
            raise KeyboardInterrupt
        return encode(start, stop, held)

    def resumed(start: int, stop: int, held: Mapping[str, int]) -> CacheRows:
        assert start >= 5 * at
        return encode(start, stop, held)

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, cache_spec(encode=interrupted))
    cache = build(tmp_path, cache_spec(encode=resumed))
    assert f"resuming at conversation {5 * at}" in caplog.text
    assert cache.explanation.endswith(f"unfinished, {5 * at} done")
    build(tmp_path / "whole", cache_spec())
    assert contents(cache.folder) == contents(tmp_path / "whole" / cache.folder.name)


def test_an_interrupt_between_two_files_of_a_batch_does_not_commit_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, writes = system_calls.system.write, []

    def write(descriptor: int, data: Any) -> int:
        writes.append(1)
        if len(writes) == 4:  # ids and mask of the first batch, ids of the second
            raise KeyboardInterrupt
        return real(descriptor, data)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(system_calls.system, "write", write)
        build(tmp_path, cache_spec())
    meta = atomic.load_json(next(tmp_path.glob("*/meta.json")))
    assert meta["done"] == 5
    assert meta["files"]["ids.bin"]["size"] == 60
    assert build(tmp_path, cache_spec()).counts == {"one": {"rows": 23, "sum": 253}}


def test_two_processes_do_not_build_one_cache(tmp_path: Path) -> None:
    folder = build(tmp_path, cache_spec()).folder
    (folder / "meta.json").unlink()
    with FolderLock(folder / "lock"), pytest.raises(Locked):
        build(tmp_path, cache_spec())


def test_files_without_a_record_do_not_exist(tmp_path: Path) -> None:
    cache = build(tmp_path, cache_spec())
    (cache.folder / "meta.json").unlink()
    cache.path("mask.bin").write_bytes(b"")
    assert build(tmp_path, cache_spec()).fingerprint == cache.fingerprint


def test_unknown_files_in_the_folder_are_ignored(tmp_path: Path) -> None:
    cache = build(tmp_path, cache_spec())
    (cache.folder / ".DS_Store").write_bytes(b"x")
    assert build(tmp_path, cache_spec(encode=None)).fingerprint == cache.fingerprint


@pytest.mark.parametrize("size", [None, 0, 1, 22])
def test_a_record_without_its_bytes_says_so_and_offers_the_fix(
    tmp_path: Path, size: int | None
) -> None:
    cache = build(tmp_path, cache_spec())
    path = cache.path("mask.bin")
    data = path.read_bytes()
    path.unlink()
    if size is not None:
        path.write_bytes(data[:size])
    with pytest.raises(CacheError, match=r"mask.bin .*, 23 .*were recorded.*shutil.rmtree"):
        build(tmp_path, cache_spec())


def test_a_full_check_finds_a_changed_byte(tmp_path: Path) -> None:
    cache = build(tmp_path, cache_spec())
    data = bytearray(cache.path("ids.bin").read_bytes())
    data[7] ^= 1
    cache.path("ids.bin").write_bytes(data)
    build(tmp_path, cache_spec())
    with pytest.raises(CacheError, match=r"ids.bin was changed.*shutil.rmtree"):
        build(tmp_path, cache_spec(), verify="full")


def test_an_unfinished_cache_whose_files_went_is_not_begun_anew_in_silence(tmp_path: Path) -> None:
    def interrupted(start: int, stop: int, held: Mapping[str, int]) -> CacheRows:
        if start == 10:
            raise KeyboardInterrupt
        return encode(start, stop, held)

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, cache_spec(encode=interrupted))
    next(tmp_path.glob("*/ids.bin")).unlink()
    with pytest.raises(CacheError, match="is missing"):
        build(tmp_path, cache_spec())


def test_after_a_power_cut_every_commit_has_its_rows(tmp_path: Path) -> None:
    def build_all() -> None:
        build(tmp_path, cache_spec(), save_every_seconds=0)

    assert broken_promises(tmp_path, build_all) == []


class WrongLater:
    """Rows that an encoder gets wrong, noticed at row ``at``, until the reference is used."""

    def __init__(self, at: int) -> None:
        self.at, self.right = at, False

    def use_reference(self) -> None:
        self.right = True

    def __call__(self, start: int, stop: int, held: Mapping[str, int]) -> CacheRows:
        if not self.right and start >= self.at:
            raise EncoderMismatch("two ids for one text")
        rows = encode(start, stop, held)
        return (
            rows if self.right else rows._replace(arrays={n: a * 0 for n, a in rows.arrays.items()})
        )


@pytest.mark.parametrize("at", [0, 10, 20])
def test_a_cache_with_a_wrong_encoder_is_emptied_and_built_by_the_reference(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    wrong = WrongLater(at)
    spec = dataclasses.replace(cache_spec(encode=wrong), use_reference=wrong.use_reference)
    cache = build(tmp_path, spec, save_every_seconds=0)
    right = build(tmp_path / "right", cache_spec())
    assert cache.fingerprint == right.fingerprint and cache.counts == right.counts
    assert "two ids for one text; the cache is emptied and built again" in caplog.text


def test_after_a_crash_a_cache_with_a_wrong_encoder_goes_on_with_the_reference(
    tmp_path: Path,
) -> None:
    right = build(tmp_path / "right", cache_spec())

    def attempt(folder: Path) -> None:
        known = [*folder.glob(f"*/{MISMATCH}")]
        wrong = WrongLater(1_000 if known else 10)  # it is noticed only once
        spec = dataclasses.replace(cache_spec(encode=wrong), use_reference=wrong.use_reference)
        made = build(folder, spec, save_every_seconds=0)
        assert made.fingerprint == right.fingerprint

    for at in range(1, 400, 7):
        folder = tmp_path / str(at)
        with seam(at) as calls, contextlib.suppress(Killed):
            attempt(folder)
        attempt(folder)
        if calls.calls < at:
            return
    raise AssertionError("more calls than were tried")
