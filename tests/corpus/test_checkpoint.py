"""A checkpoint is the old generation or the new one, and says when it is neither."""

import itertools
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from crashes import flip, seam, survives

from pipeline_lib.corpus import checkpoint
from pipeline_lib.corpus.checkpoint import (
    CURRENT,
    PREVIOUS,
    load_buffer,
    read_fields,
    save_checkpoint,
)
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import Cursor
from pipeline_lib.shuffling import ShuffleState
from pipeline_lib.storage import atomic

STATE = ShuffleState(Cursor(2, 41), 77, [b"one", None, b"", "drei ü".encode()], False)


def commit(folder: Path, generation: int, shuffle: ShuffleState = STATE, **more: Any) -> None:
    save_checkpoint(folder, {"generation": generation, **more}, shuffle)


def test_a_commit_comes_back_with_its_buffer(tmp_path: Path) -> None:
    commit(tmp_path, 1, finished=False)
    fields = read_fields(tmp_path / CURRENT)
    assert load_buffer(tmp_path, fields) == STATE
    assert (fields["checkpoint_version"], fields["generation"], fields["finished"]) == (1, 1, False)
    assert (fields["cursor"], fields["draws"], fields["draining"]) == ([2, 41], 77, False)


def test_an_empty_buffer_and_a_draining_one_come_back(tmp_path: Path) -> None:
    for generation, shuffle in enumerate(
        [STATE._replace(buffer=[]), STATE._replace(draining=True)]
    ):
        commit(tmp_path, generation, shuffle)
        assert load_buffer(tmp_path, read_fields(tmp_path / CURRENT)) == shuffle


def test_a_large_buffer_comes_back(tmp_path: Path) -> None:
    rows = [None if n % 9 == 0 else b"%d" % n * (n % 50) for n in range(3_000)]
    commit(tmp_path, 1, STATE._replace(buffer=rows))
    assert load_buffer(tmp_path, read_fields(tmp_path / CURRENT)).buffer == rows


def test_two_generations_and_their_snapshots_are_kept(tmp_path: Path) -> None:
    for generation in range(1, 6):
        commit(tmp_path, generation)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "buffer_000004.bin", "buffer_000005.bin", CURRENT, PREVIOUS,
    ]  # fmt: skip
    assert read_fields(tmp_path / PREVIOUS)["generation"] == 4
    assert [path.name for path in checkpoint.generations(tmp_path)] == [CURRENT, PREVIOUS]


def test_death_anywhere_in_a_commit_leaves_one_whole_generation(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    commit(tmp_path, 2)
    for at in itertools.count(1):
        if survives(lambda: commit(tmp_path, 3), at, torn=True):
            break
        fields = read_fields(tmp_path / CURRENT)
        assert fields["generation"] in (2, 3)
        assert load_buffer(tmp_path, fields) == STATE
    assert at > 8


def test_the_order_of_a_commit_is_snapshot_then_second_name_then_json(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    with seam() as watched:
        commit(tmp_path, 2)
    before = watched.names.index("replace")
    assert watched.names.index("link") < before
    assert watched.names[:before].count("fsync") == 3  # snapshot, folder, temporary JSON
    assert watched.names[before : before + 2] == ["replace", "fsync"]


def test_a_snapshot_that_can_not_be_removed_is_only_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    commit(tmp_path, 1)
    commit(tmp_path, 2)
    with seam(2, only="unlink", error=PermissionError(13, "no")), caplog.at_level(logging.WARNING):
        commit(tmp_path, 3)
    assert "could not remove the old snapshot" in caplog.text
    assert read_fields(tmp_path / CURRENT)["generation"] == 3


def test_an_unreadable_generation_keeps_every_snapshot(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    commit(tmp_path, 2)
    (tmp_path / PREVIOUS).write_bytes(b"{")
    (tmp_path / "buffer_000000.bin").write_bytes(b"perhaps named")
    checkpoint.clean_checkpoint_buffers(tmp_path)
    assert len(list(tmp_path.glob("buffer_*.bin"))) == 3


@pytest.mark.parametrize("share", range(0, 100, 7))
def test_a_flipped_bit_anywhere_in_the_json_is_found(tmp_path: Path, share: int) -> None:
    commit(tmp_path, 1, finished=False)
    path = tmp_path / CURRENT
    before = json.loads(path.read_bytes())
    flip(path, path.stat().st_size * share // 100)
    try:
        changed = json.loads(path.read_bytes()) != before
    except ValueError:
        changed = True
    if changed:  # a space that became another white space is no damage
        with pytest.raises(DamagedFile):
            read_fields(path)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b'{"checkpoint_sha256": "x"}'])
def test_what_is_no_checkpoint_is_damage(tmp_path: Path, data: bytes) -> None:
    (tmp_path / CURRENT).write_bytes(data)
    with pytest.raises(DamagedFile):
        read_fields(tmp_path / CURRENT)


def test_a_checkpoint_of_a_later_format_names_both_formats(tmp_path: Path) -> None:
    from pipeline_lib import digest

    fields = {"checkpoint_version": 9}
    sealed = {**fields, "checkpoint_sha256": digest.of_json(fields)}
    atomic.save_json(tmp_path / CURRENT, sealed)
    with pytest.raises(DamagedFile, match="has format 9, this program reads 1"):
        read_fields(tmp_path / CURRENT)


@pytest.mark.parametrize("position", [0, 20, -1])
def test_a_changed_snapshot_is_found(tmp_path: Path, position: int) -> None:
    commit(tmp_path, 1)
    flip(tmp_path / "buffer_000001.bin", position)
    with pytest.raises(DamagedFile, match=r"buffer_000001\.bin does not match"):
        load_buffer(tmp_path, read_fields(tmp_path / CURRENT))


def test_a_missing_snapshot_is_found(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    (tmp_path / "buffer_000001.bin").unlink()
    with pytest.raises(DamagedFile, match=r"buffer_000001\.bin is missing"):
        load_buffer(tmp_path, read_fields(tmp_path / CURRENT))


def test_falling_back_keeps_the_damaged_generation_aside_even_if_it_dies(tmp_path: Path) -> None:
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        commit(folder, 1)
        commit(folder, 2)
        (folder / CURRENT).write_bytes(b"half")
        done = survives(lambda folder=folder: checkpoint.fall_back(folder), at)
        newest = checkpoint.generations(folder)
        assert read_fields(newest[-1])["generation"] == 1
        if done:
            break
    assert (folder / "checkpoint.damaged.json").read_bytes() == b"half"
    assert read_fields(folder / CURRENT)["generation"] == 1


def test_damaged_is_not_absent(tmp_path: Path) -> None:
    assert not checkpoint.exists(tmp_path)
    (tmp_path / CURRENT).write_bytes(b"")
    assert checkpoint.exists(tmp_path)
