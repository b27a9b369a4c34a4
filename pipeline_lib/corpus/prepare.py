"""From a pinned Parquet corpus to published token shards.

``prepare`` reads a corpus, shuffles it within bounds, splits it by content, encodes it, writes
it as shards of fixed size, and makes the result appear under its name in one step. Kill it at
any instant: resumed, it ends in the same bytes.
"""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pipeline_lib.corpus import checkpoint, manifest, staging
from pipeline_lib.corpus.lane import Job, run_lane
from pipeline_lib.corpus.pinned import Pinned, pin, pin_names
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.sameness import check_same_run
from pipeline_lib.engines import Engine, in_order
from pipeline_lib.errors import DamagedFile, Locked, PipelineError, ResumeRefused, SourceError
from pipeline_lib.records import FOLDER, LaneProgress
from pipeline_lib.signals import StopRequest
from pipeline_lib.sources.resolve import check_first_file
from pipeline_lib.storage import atomic, folders
from pipeline_lib.tokenization.equality import KINDS

Resume = Literal[False, True, "auto"]
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """The caller's choices that change no byte of the output.

    ``checkpoint_interval`` in seconds; ``verify`` "all" or "recent"; ``ValueError`` otherwise.
    """

    encoder: str = "auto"
    checkpoint_interval: float = 60.0
    verify: str = "all"
    replay: bool = False
    engine: Engine = in_order
    clock: Callable[[], float] = time.monotonic
    on_progress: Callable[[LaneProgress], None] = lambda progress: None

    def __post_init__(self) -> None:
        if self.encoder not in KINDS:
            raise ValueError(f"encoder is {self.encoder!r}; choose one of {', '.join(KINDS)}")
        if not self.checkpoint_interval > 0:
            raise ValueError(
                f"checkpoint_interval is {self.checkpoint_interval}; give seconds above 0"
            )
        if self.verify not in ("all", "recent"):
            raise ValueError(f"verify is {self.verify!r}; choose all or recent")


def prepare(
    recipe: Recipe,
    output_dir: Path | str,
    resume: Resume = False,
    options: PrepareOptions | None = None,
) -> dict[str, Any]:
    """Prepare a corpus and publish it as ``output_dir``; returns the published metadata.

    ``resume=False`` starts a fresh run and refuses to touch anything that is there;
    ``True`` goes on with an unfinished one; ``"auto"`` starts, goes on, or returns what is
    published, whichever fits an equal recipe. Errors are ``PipelineError`` subclasses; a
    signal raises ``Interrupted`` after a commit.
    """
    target = staging.target_of(output_dir)
    work = staging.staging_of(target)
    options = options or PrepareOptions()
    if staging.is_published(target):
        metadata = _already_complete(target, recipe, resume)
        _clear_away(work)
        return metadata
    pinned = None
    if not (work / staging.LOCK).exists():  # nobody is there: refuse before anything is touched
        staging.require(target, resume)
        if not staging.has_commit(work):
            pinned = _pinned(recipe, None)
    try:
        with staging.occupied(work):
            return _prepare(recipe, target, resume, options, pinned)
    except Locked:
        if staging.is_published(target):  # by the one that still holds the lock
            return _already_complete(target, recipe, resume)
        raise


def _prepare(
    recipe: Recipe, target: Path, resume: Resume, options: PrepareOptions, pinned: Pinned | None
) -> dict[str, Any]:
    """The part under the lock: what is there is looked at again, as nobody else changes it now."""
    work = staging.staging_of(target)
    if staging.is_published(target):
        metadata = _already_complete(target, recipe, resume)
        staging.discard_leftover(work)
        return metadata
    staging.require(target, resume)
    recorded = recorded_run(target) if resume else None
    if recorded is not None or pinned is None:
        pinned = _pinned(recipe, recorded)
    staging.make(work, pinned.recipe.lanes)
    return _run(pinned, target, work, options)


def _pinned(recipe: Recipe, recorded: dict[str, Any] | None) -> Pinned:
    """The exact recipe, after checking all that can be checked before a folder is touched."""
    if recorded is None:
        pinned = pin(recipe)
        check_first_file(pinned.source, pinned.recipe)
        return pinned
    pinned = pin(_with_recorded_pins(recipe, recorded["recipe"]), recorded["locations"])
    check_same_run(recorded, pinned)
    return pinned


def _run(pinned: Pinned, target: Path, work: Path, options: PrepareOptions) -> dict[str, Any]:
    with StopRequest() as stop:
        job = Job(
            pinned=pinned,
            staging=work,
            encoder=options.encoder,
            checkpoint_interval=options.checkpoint_interval,
            verify=options.verify,
            replay=options.replay,
            stop=stop,
            clock=options.clock,
            on_progress=options.on_progress,
        )
        numbers = list(range(pinned.recipe.lanes))
        lanes = list(options.engine(partial(run_lane, job), numbers))
        return _publish(pinned, lanes, work, target)


def _publish(
    pinned: Pinned, lanes: list[dict[str, Any]], work: Path, target: Path
) -> dict[str, Any]:
    try:
        metadata = manifest.build(pinned, lanes, manifest.code_digest())
    except SourceError:
        staging.discard(work)  # the same recipe can only end here again
        raise
    if metadata["train_token_target_reached"] is False:
        _LOG.warning(
            "the source ended at %s train tokens, below the %s asked for",
            f"{metadata['counts']['train_tokens']:,}",
            f"{pinned.recipe.train_tokens:,}",
        )
    payload = work / "payload"
    names = {shard["file"] for shards in metadata["shards"].values() for shard in shards}
    staging.clear_payload(payload, names)
    atomic.save_json(payload / staging.MANIFEST, metadata)
    folders.publish_folder(payload, target)
    staging.discard(work)
    return metadata


def _already_complete(target: Path, recipe: Recipe, resume: Resume) -> dict[str, Any]:
    if resume is False:
        staging.require_fresh(target)  # which it is not
    metadata = manifest.load(target)
    recorded = Recipe.from_fields(metadata["recipe"])
    if recipe != recorded:  # it may name a branch or a path: compare what they stand for
        recipe = pin_names(recipe, recorded)
    if recipe != recorded:
        shown = "; ".join(
            f"{name}: was {old!r}, is {new!r}" for name, old, new in recorded.differences(recipe)
        )
        raise ResumeRefused(
            f"{target} was published from another recipe ({shown}); give the recorded values or "
            "choose another output folder"
        )
    _LOG.info("%s is already complete", target)
    return metadata


def _clear_away(work: Path) -> None:
    """Remove what a run left that died after publishing, unless another process does."""
    if work.exists():
        with contextlib.suppress(PipelineError), staging.occupied(work):
            staging.discard_leftover(work)


def recorded_run(target: Path) -> dict[str, Any] | None:
    """What is recorded of the run for an output folder: its manifest, or else the newest
    readable checkpoint; ``None`` if there is none, ``DamagedFile`` if none is readable."""
    if staging.is_published(target):
        return manifest.load(target)
    work = staging.staging_of(target)
    problems: list[str] = []
    if staging.is_discarded(work):
        return None
    for folder in [work, *sorted(work.glob("lane_*"))]:
        for path in checkpoint.generations(folder):
            try:
                return checkpoint.read_fields(path)
            except FileNotFoundError:  # replaced or published at this moment
                continue
            except DamagedFile as damage:
                problems.append(str(damage))
    if staging.is_published(target):
        return manifest.load(target)
    if problems:
        raise DamagedFile(
            f"no checkpoint in {work} can be read: {' | '.join(problems)}. Restore one from a "
            "copy, or remove that folder and start a fresh run"
        )
    return None


def _with_recorded_pins(recipe: Recipe, recorded: dict[str, Any]) -> Recipe:
    """A recipe that names a branch or nothing goes on at the commit the run began with.

    The digest of a folder is left open: comparing its files names the one that changed.
    """
    pins: dict[str, Any] = {}
    if recorded["dataset"] == FOLDER and recipe.revision == recorded["revision"]:
        pins["revision"] = None
    elif recipe.revision is None and recipe.dataset == recorded["dataset"]:
        pins["revision"] = recorded["revision"]
    if recipe.tokenizer_revision is None and recipe.tokenizer == recorded["tokenizer"]:
        pins["tokenizer_revision"] = recorded["tokenizer_revision"]
    return dataclasses.replace(recipe, **pins)
