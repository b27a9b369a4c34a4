"""Bring a lane back to its last commit that is sound.

Generations are tried from the newest. One that is damaged is passed over with a warning; the one
before it must then verify in full. Where none is sound, the run stops: damage is never taken for a
run that has not begun.
"""

import logging
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from pipeline_lib.corpus import checkpoint
from pipeline_lib.corpus.job import Job
from pipeline_lib.corpus.layout import PREVIOUS, lane_folder
from pipeline_lib.corpus.resume_checks import check_same_run
from pipeline_lib.corpus.shard_writer import ShardWriter, new_writers, restore_writers
from pipeline_lib.corpus.state import SPLITS, BySplit, Checkpoint
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import WriterState
from pipeline_lib.selection import Split
from pipeline_lib.shuffling import ShuffleState
from pipeline_lib.sources.corpus_source import check_sealed

_LOG = logging.getLogger(__name__)


class Restored(NamedTuple):
    """A lane at a commit. For a replay ``shuffle`` has no buffer: it is read again."""

    checkpoint: Checkpoint
    shuffle: ShuffleState
    writers: dict[Split, ShardWriter]


def restore_lane(job: Job, lane: int) -> Restored:
    """The lane at its newest sound commit; ``DamagedFile`` if there is none.

    ``ResumeRefused`` / ``SourceChanged`` if the commit is of another recipe or source.
    """
    folder = lane_folder(job.staging, lane, job.pinned.recipe.lanes)
    problems: list[str] = []
    for path in checkpoint.generations(folder):
        try:
            restored = _restored(path, job, lane)
        except DamagedFile as damage:
            problems.append(str(damage))
            _LOG.warning("%s", damage)
            continue
        if path.name == PREVIOUS:
            checkpoint.fall_back(folder)
        return restored
    raise DamagedFile(
        f"no generation in {folder} can be used: {' | '.join(problems)}. Restore the "
        "named file from a copy; where only the snapshot is damaged, give --resume --replay; "
        "else remove the staging folder and start a fresh run"
    )


def _restored(path: Path, job: Job, lane: int) -> Restored:
    found = checkpoint.read_checkpoint(path)
    if found.lane != lane:
        raise DamagedFile(
            f"{path} belongs to lane {found.lane}, expected lane {lane}; it was copied from "
            "another folder"
        )
    check_same_run(found, job.pinned)
    shuffle = _shuffle(path.parent, found, replay=job.options.replay)
    all_of_them = job.options.verify == "all" or path.name == PREVIOUS
    trusted = set() if all_of_them else _older_shards(path.parent)
    writers = _writers(job, lane, found.writers, trusted)
    try:
        check_sealed(job.pinned.source, found.source_files)
    except BaseException:
        _close(writers)
        raise
    return Restored(found, shuffle, writers)


def _shuffle(folder: Path, found: Checkpoint, *, replay: bool) -> ShuffleState:
    if replay and not found.finished:
        return ShuffleState(found.cursor, found.draws, [], False)
    return checkpoint.load_shuffle(folder, found)


def _older_shards(folder: Path) -> set[str]:
    """Names of the shards that were finished before the commit before the last."""
    try:
        before = checkpoint.read_checkpoint(folder / PREVIOUS).writers
    except (FileNotFoundError, DamagedFile):
        return set()
    return {shard["file"] for split in SPLITS for shard in before[split]["shards"]}


def _writers(
    job: Job, lane: int, states: BySplit[WriterState], trusted: Collection[str]
) -> dict[Split, ShardWriter]:
    pinned = job.pinned
    writers = new_writers(job.staging, pinned.recipe, pinned.tokenizer.dtype, lane)
    try:
        restore_writers(writers, states, trusted)
    except BaseException:
        _close(writers)
        raise
    return writers


def _close(writers: dict[Split, ShardWriter]) -> None:
    for writer in writers.values():
        writer.close()
