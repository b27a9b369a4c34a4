"""A checkpoint is the old generation or the new one, and says when it is neither."""

import itertools
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpora import lane_state
from crashes import flip, seam, survives
from durability import broken_promises, unneeded_syncs

from pipeline_lib import digest
from pipeline_lib.corpus import checkpoint
from pipeline_lib.corpus.checkpoint import load_shuffle, read_checkpoint, save_checkpoint
from pipeline_lib.corpus.layout import CHECKPOINT, PREVIOUS
from pipeline_lib.corpus.state import Checkpoint
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import Cursor
from pipeline_lib.shuffling import ShuffleState
from pipeline_lib.storage import atomic

STATE = ShuffleState(Cursor(2, 41), 77, [b"one", None, b"", "drei ü".encode()], False)


def commit(folder: Path, generation: int, shuffle: ShuffleState = STATE, **more: Any) -> Checkpoint:
    return save_checkpoint(folder, lane_state(generation=generation, **more), shuffle)


def test_a_commit_comes_back_with_its_buffer(tmp_path: Path) -> None:
    committed = commit(tmp_path, 1, lane=3, encoders=[{"name": "tokenizers", "version": "1"}])
    found = read_checkpoint(tmp_path / CHECKPOINT)
    assert found == committed and load_shuffle(tmp_path, found) == STATE
    assert (found.generation, found.lane, found.finished) == (1, 3, False)
    assert (found.cursor, found.draws, found.draining) == (Cursor(2, 41), 77, False)


def test_an_empty_buffer_and_a_draining_one_come_back(tmp_path: Path) -> None:
    for generation, shuffle in enumerate(
        [STATE._replace(buffer=[]), STATE._replace(draining=True)]
    ):
        found = commit(tmp_path, generation, shuffle)
        assert load_shuffle(tmp_path, found) == shuffle


def test_the_form_of_the_json_never_changes(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    fields = json.loads((tmp_path / CHECKPOINT).read_bytes())
    assert list(fields) == [
        "checkpoint_version", "generation", "lane", "finished", "recipe", "tokenizer", "reader",
        "source_files", "locations", "versions", "encoders", "source_rows_visited", "source_digest",
        "nulls", "blanks", "rejected", "first_rejected", "losses",
        "prefetched_documents_not_written", "train_token_target_reached", "writers",
        "elapsed_seconds", "cursor", "draws", "draining", "buffer", "checkpoint_sha256",
    ]  # fmt: skip
    assert (fields["checkpoint_version"], fields["cursor"]) == (2, [2, 41])


def test_two_generations_and_their_snapshots_are_kept(tmp_path: Path) -> None:
    for generation in range(1, 6):
        commit(tmp_path, generation)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "buffer_000004.bin", "buffer_000005.bin", CHECKPOINT, PREVIOUS,
    ]  # fmt: skip
    assert read_checkpoint(tmp_path / PREVIOUS).generation == 4
    assert [path.name for path in checkpoint.generations(tmp_path)] == [CHECKPOINT, PREVIOUS]


def test_death_anywhere_in_a_commit_leaves_one_whole_generation(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    commit(tmp_path, 2)
    for at in itertools.count(1):
        if survives(lambda: commit(tmp_path, 3), at, torn=True):
            break
        found = read_checkpoint(tmp_path / CHECKPOINT)
        assert found.generation in (2, 3)
        assert load_shuffle(tmp_path, found) == STATE
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
    assert read_checkpoint(tmp_path / CHECKPOINT).generation == 3


def test_an_unreadable_generation_keeps_every_snapshot(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    commit(tmp_path, 2)
    (tmp_path / PREVIOUS).write_bytes(b"{")
    (tmp_path / "buffer_000000.bin").write_bytes(b"perhaps named")
    checkpoint.clean_checkpoint_buffers(tmp_path)
    assert len(list(tmp_path.glob("buffer_*.bin"))) == 3


@pytest.mark.parametrize("share", range(0, 100, 7))
def test_a_flipped_bit_anywhere_in_the_json_is_found(tmp_path: Path, share: int) -> None:
    commit(tmp_path, 1)
    path = tmp_path / CHECKPOINT
    before = json.loads(path.read_bytes())
    flip(path, path.stat().st_size * share // 100)
    try:
        changed = json.loads(path.read_bytes()) != before
    except ValueError:
        changed = True
    if changed:  # a space that became another white space is no damage
        with pytest.raises(DamagedFile):
            read_checkpoint(path)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b'{"checkpoint_sha256": "x"}'])
def test_what_is_no_checkpoint_is_damage(tmp_path: Path, data: bytes) -> None:
    (tmp_path / CHECKPOINT).write_bytes(data)
    with pytest.raises(DamagedFile):
        read_checkpoint(tmp_path / CHECKPOINT)


def test_falling_back_keeps_the_damaged_generation_aside_even_if_it_dies(tmp_path: Path) -> None:
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        commit(folder, 1)
        commit(folder, 2)
        (folder / CHECKPOINT).write_bytes(b"half")
        done = survives(lambda folder=folder: checkpoint.fall_back(folder), at)
        newest = checkpoint.generations(folder)
        assert read_checkpoint(newest[-1]).generation == 1
        if done:
            break
    assert (folder / "checkpoint.damaged.json").read_bytes() == b"half"
    assert read_checkpoint(folder / CHECKPOINT).generation == 1


def test_damaged_is_not_absent(tmp_path: Path) -> None:
    assert not checkpoint.exists(tmp_path)
    (tmp_path / CHECKPOINT).write_bytes(b"")
    assert checkpoint.exists(tmp_path)


def resealed(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A checkpoint that a bug or a foreign hand changed, whose own digest is right."""
    fields = json.loads(path.read_bytes())
    del fields["checkpoint_sha256"]
    change(fields)
    atomic.save_json(path, {**fields, "checkpoint_sha256": digest.of_json(fields)})
    return path


@pytest.mark.parametrize("version", [9, None, 1])
def test_a_checkpoint_of_another_format_names_both_formats(tmp_path: Path, version: Any) -> None:
    commit(tmp_path, 1)
    path = resealed(tmp_path / CHECKPOINT, lambda fields: fields.update(checkpoint_version=version))
    with pytest.raises(DamagedFile, match=f"has format {version}, this program reads 2"):
        read_checkpoint(path)


FIELDS: dict[str, Any] = {
    "missing required field `draws`": lambda fields: fields.pop("draws"),
    "missing required field `val` - at `$.writers`": lambda fields: fields["writers"].pop("val"),
    "missing required field `file` - at `$.buffer`": lambda fields: fields["buffer"].pop("file"),
    "at `$.generation`": lambda fields: fields.update(generation="1"),
    "at `$.finished`": lambda fields: fields.update(finished=0),
    "at `$.elapsed_seconds`": lambda fields: fields.update(elapsed_seconds=None),
    "at `$.cursor`": lambda fields: fields.update(cursor=[1]),
    "at `$.reader.files[0]`": lambda fields: fields["reader"].update(files=[1]),
    "at `$.locations.dataset`": lambda fields: fields["locations"].update(dataset=1),
    "at `$.tokenizer.eos_id`": lambda fields: fields["tokenizer"].update(eos_id=1.5),
    "at `$.writers.train.tokens`": lambda fields: fields["writers"]["train"].update(tokens="5"),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_is_missing_or_of_another_type_is_named(tmp_path: Path, field: str) -> None:
    commit(tmp_path, 1)
    path = resealed(tmp_path / CHECKPOINT, FIELDS[field])
    with pytest.raises(DamagedFile, match=re.escape(field)) as error:
        read_checkpoint(path)
    assert str(path) in str(error.value)


def test_after_a_power_cut_every_generation_has_its_snapshot_and_no_fsync_can_be_left_out(
    tmp_path: Path,
) -> None:
    def five_commits(folder: Path) -> None:
        for generation in range(1, 6):
            commit(folder, generation)

    def folder(number: int) -> Path:
        (tmp_path / str(number)).mkdir()
        return tmp_path / str(number)

    assert broken_promises(first := folder(-1), lambda: five_commits(first)) == []
    assert unneeded_syncs(folder, five_commits) == []


def test_after_a_power_cut_a_fall_back_has_its_snapshot(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    commit(tmp_path, 2)
    (tmp_path / CHECKPOINT).write_bytes(b"half")

    def fall_back_and_go_on() -> None:
        checkpoint.fall_back(tmp_path)
        commit(tmp_path, 2)

    assert broken_promises(tmp_path, fall_back_and_go_on) == []
