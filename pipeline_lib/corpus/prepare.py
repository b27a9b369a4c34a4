"""From a pinned Parquet corpus to published token shards.

``prepare`` reads a corpus, shuffles it within bounds, splits it by content, encodes it, writes it
as shards of fixed size, and makes the result appear under its name in one step. A run may be killed
at any instant: resumed, it ends in the same bytes.
"""

import contextlib
import logging
from functools import partial
from pathlib import Path
from typing import Literal

from pipeline_lib.corpus import manifest, staging
from pipeline_lib.corpus.bounds import forecast
from pipeline_lib.corpus.job import Job
from pipeline_lib.corpus.lane import run_lane
from pipeline_lib.corpus.layout import LOCK, absolute_output, staging_folder
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.options import PrepareOptions
from pipeline_lib.corpus.pinned import Pinned, pin
from pipeline_lib.corpus.publish import publish_run
from pipeline_lib.corpus.reader import check_first_file, rows_of_lanes
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.recorded import newest_checkpoint
from pipeline_lib.corpus.resume_checks import (
    check_published_run,
    check_same_run,
    with_recorded_pins,
)
from pipeline_lib.corpus.state import Checkpoint
from pipeline_lib.errors import Locked, PipelineError
from pipeline_lib.records import FOLDER
from pipeline_lib.signals import StopRequest

Resume = Literal[False, True, "auto"]
_LOG = logging.getLogger(__name__)


def prepare(
    recipe: Recipe,
    output_dir: Path | str,
    resume: Resume = False,
    options: PrepareOptions | None = None,
) -> Manifest:
    """Prepare a corpus and publish it as ``output_dir``; returns the published metadata.

    ``resume=False`` starts a fresh run and refuses to touch anything that is there. ``True`` goes
    on with an unfinished run. ``"auto"`` starts a run, goes on with one, or returns the metadata of
    a folder that is published already; the recipe must be equal.

    The published folder holds one-dimensional ``.npy`` files of token ids (``<u2`` or ``<u4``) and
    ``metadata.json``, whose content is returned (see ``Manifest``). Among its keys are

    - ``counts``: ``rows_visited``, ``skipped_null``, ``skipped_blank``,
      ``prefetched_documents_not_written``, ``train_documents``, ``train_tokens``,
      ``val_documents``, ``val_tokens``;
    - ``shards``: for ``train`` and ``val`` a list of records with ``file``, ``tokens``, ``sha256``,
      ``first_document``, ``first_token``;
    - ``content_sha256``: equal for equal recipes;
    - ``recipe``, ``source``, ``tokenizer``, ``dtype``, ``train_token_target_reached``;
    - ``measured``: times (seconds), rates (tokens a second) and versions, which may differ.

    Errors are ``ValueError`` for a wrong argument and subclasses of ``PipelineError``:
    ``SourceError``, ``HubError``, ``TokenizerError``, ``EncoderMismatch`` for things that can not
    be used; ``OutputExists``, ``Locked`` for folders that are taken; ``NothingToResume``,
    ``ResumeRefused`` (another recipe, other versions), ``SourceChanged``, ``DamagedFile``; and
    ``Interrupted`` when a signal stopped the run behind a commit.
    """
    output = absolute_output(output_dir)
    staging_dir = staging_folder(output)
    options = options or PrepareOptions()
    if staging.is_published(output):
        metadata = _already_complete(output, recipe, resume)
        _remove_leftover(staging_dir)
        return metadata
    pinned = _checked_before_the_lock(recipe, output, resume)
    try:
        with staging.locked_staging(staging_dir):
            return _prepare_locked(recipe, output, resume, options, pinned)
    except Locked:
        if staging.is_published(output):  # by the one that still holds the lock
            return _already_complete(output, recipe, resume)
        raise


def _checked_before_the_lock(recipe: Recipe, output: Path, resume: Resume) -> Pinned | None:
    """The exact recipe of a fresh run, so that no folder is made for a run that can not begin.

    None if a run is to go on, or if another process may be at work.
    """
    staging_dir = staging_folder(output)
    if (staging_dir / LOCK).exists():
        return None
    staging.require_fit(output, resume)
    return None if staging.has_commit(staging_dir) else _pin_fresh(recipe)


def _prepare_locked(
    recipe: Recipe, output: Path, resume: Resume, options: PrepareOptions, pinned: Pinned | None
) -> Manifest:
    """The part under the lock.

    The folders are looked at again, because another process may have changed them before the lock
    was taken; now none can.
    """
    staging_dir = staging_folder(output)
    if staging.is_published(output):
        metadata = _already_complete(output, recipe, resume)
        staging.remove_published_staging(staging_dir)
        return metadata
    staging.require_fit(output, resume)
    recorded = newest_checkpoint(staging_dir) if resume else None
    if recorded is not None:
        pinned = _pin_recorded(recipe, recorded)
    elif pinned is None:
        pinned = _pin_fresh(recipe)
    staging.make_folders(staging_dir, pinned.recipe.lanes)
    _LOG.info("%s", _forecast(pinned))
    with StopRequest() as stop:
        job = Job(pinned, staging_dir, options, stop)
        numbers = list(range(pinned.recipe.lanes))
        lanes = list(options.engine(partial(run_lane, job), numbers))
        return publish_run(pinned, lanes, staging_dir, output)


def _forecast(pinned: Pinned) -> str:
    """What the run will visit, as far as that is known without a transfer."""
    recipe, source = pinned.recipe, pinned.source
    local = source.dataset == FOLDER
    rows = rows_of_lanes(source, recipe, source.rows_by_file() if local else None)
    return forecast(recipe, rows)


def _pin_fresh(recipe: Recipe) -> Pinned:
    """The exact recipe of a fresh run, after all checks that need no folder."""
    pinned = pin(recipe)
    check_first_file(pinned.source, pinned.recipe)
    return pinned


def _pin_recorded(recipe: Recipe, recorded: Checkpoint) -> Pinned:
    """The exact recipe of a run that goes on, after comparing it with the recorded one."""
    pinned = pin(with_recorded_pins(recipe, recorded.recipe), recorded.locations)
    check_same_run(recorded, pinned)
    return pinned


def _already_complete(output: Path, recipe: Recipe, resume: Resume) -> Manifest:
    if resume is False:
        staging.require_fresh(output)  # which it is not
    metadata = manifest.load(output)
    check_published_run(metadata, recipe, str(output))
    _LOG.info("%s is already complete", output)
    return metadata


def _remove_leftover(staging_dir: Path) -> None:
    """Remove the staging folder of a run that died after publishing, unless it is in use."""
    if staging_dir.exists():
        with contextlib.suppress(PipelineError), staging.locked_staging(staging_dir):
            staging.remove_published_staging(staging_dir)
