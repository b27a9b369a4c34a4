"""The record of the run for an output folder: its manifest, or else its last checkpoint."""

from dataclasses import dataclass
from pathlib import Path

from pipeline_lib.corpus import checkpoint, manifest, staging
from pipeline_lib.corpus.layout import checkpoint_folders, staging_folder
from pipeline_lib.corpus.recipe import RecipeFields
from pipeline_lib.corpus.state import Checkpoint, Locations
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import TokenizerMetadata


@dataclass(frozen=True)
class RecordedRun:
    """A run that is published or was begun.

    ``recipe``: pinned, all its fields. ``locations``: None for a published run, whose
    manifest names no paths.
    """

    recipe: RecipeFields
    tokenizer: TokenizerMetadata
    locations: Locations | None


def recorded_run(output: Path) -> RecordedRun | None:
    """The run for an output folder; None if there is none.

    ``DamagedFile`` if there is a record of it and none can be read. ``OutputExists`` if the output
    folder is something else.
    """
    damage: DamagedFile | None = None
    if not staging.is_published(output):
        try:
            last = newest_checkpoint(staging_folder(output))
        except DamagedFile as error:
            last, damage = None, error
        if last is not None:
            return RecordedRun(last.recipe, last.tokenizer, last.locations)
    if staging.is_published(output):  # perhaps by another process, at this moment
        published = manifest.load(output)
        return RecordedRun(published["recipe"], published["tokenizer"], None)
    if damage is not None:
        raise damage
    return None


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest readable checkpoint of the first lane that has one; None if no lane has any.

    ``DamagedFile`` if there are checkpoints and none can be read.
    """
    if staging.is_being_removed(folder):
        return None
    problems: list[str] = []
    for lane in checkpoint_folders(folder):
        for path in checkpoint.generations(lane):
            try:
                return checkpoint.read_checkpoint(path)
            except FileNotFoundError:  # replaced or published at this moment
                continue
            except DamagedFile as damage:
                problems.append(str(damage))
    if problems:
        raise DamagedFile(
            f"no checkpoint in {folder} can be read: {' | '.join(problems)}. Restore one from a "
            "copy, or remove that folder and start a fresh run"
        )
    return None
