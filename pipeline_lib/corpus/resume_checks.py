"""Whether a run may be continued, or a published folder returned: same recipe, source, versions.

A recipe for a resumed run may leave out values that are recorded. Every difference is an error that
shows the old value, the new value and the way out.
"""

import dataclasses
import logging

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.pinned import Pinned, versions
from pipeline_lib.corpus.recipe import Recipe, RecipeFields
from pipeline_lib.corpus.state import Checkpoint, ReaderMetadata
from pipeline_lib.errors import ResumeRefused, SourceChanged
from pipeline_lib.records import FOLDER, LOCAL
from pipeline_lib.sources.corpus_source import CorpusSource, check_sealed
from pipeline_lib.sources.folder import FolderSource
from pipeline_lib.sources.resolve import resolve_parquet_files
from pipeline_lib.tokenization.tokenizer import load_tokenizer

_LOG = logging.getLogger(__name__)


def recorded_recipe(fields: RecipeFields) -> Recipe:
    """The recipe that a checkpoint or a manifest records.

    ``ResumeRefused`` if another algorithm version wrote it, or if it is no recipe.
    """
    try:
        return Recipe.from_fields(fields)
    except (ValueError, TypeError) as error:
        raise ResumeRefused(f"the recorded recipe can not be used: {error}") from error


def check_same_run(recorded: Checkpoint, pinned: Pinned) -> None:
    """``ResumeRefused`` / ``SourceChanged`` unless a checkpoint is of this recipe, this source and
    these package versions."""
    recipe = recorded_recipe(recorded.recipe)
    _check_files(recorded.reader, pinned)
    if different := _differences(recipe, pinned.recipe):
        raise ResumeRefused(
            f"the unfinished run has another recipe ({different}); give the recorded "
            "values or leave them out, or choose another output folder"
        )
    _check_versions(recorded.versions)
    tokenizer = pinned.tokenizer.metadata()
    if recorded.tokenizer != tokenizer:
        raise ResumeRefused(
            f"the tokenizer was {recorded.tokenizer}, is {tokenizer}; restore it, or start a fresh "
            "run in another output folder"
        )


def check_published_run(published: Manifest, recipe: Recipe, folder: str) -> None:
    """``ResumeRefused`` unless a published folder was made from this recipe.

    ``SourceChanged`` names a file of its source that has other content now.

    ``recipe`` may name a branch or a path; the commit or digest that it stands for is compared. A
    file that has its recorded size and time of change is not hashed again.
    """
    recorded = recorded_recipe(published["recipe"])
    source = _other_source(recipe, recorded)
    if recipe != recorded:
        recipe = _pin_names(recipe, recorded, source)
    if different := _differences(recorded, recipe):
        raise ResumeRefused(
            f"{folder} was published from another recipe ({different}); give the recorded values "
            "or choose another output folder"
        )
    if isinstance(source, FolderSource):
        _check_contents(published, source, folder)
    elif recorded.dataset == FOLDER:
        _LOG.info("the recipe says no path, so %s is not compared with its source", folder)


def _check_contents(published: Manifest, source: FolderSource, folder: str) -> None:
    if manifest.is_first(published):
        _LOG.warning(
            "%s was made by an earlier version that kept no hashes of its source, so whether %s "
            "still has the same content is not known", folder, source.location,
        )  # fmt: skip
    try:
        check_sealed(source, manifest.source_seals(published))
    except SourceChanged as error:
        raise SourceChanged(
            f"{folder} was published from other content: {error}; or move {folder} away to have "
            "it made again"
        ) from error


def with_recorded_pins(recipe: Recipe, recorded: RecipeFields) -> Recipe:
    """A recipe that names a branch or nothing goes on at the commit that the run began with.

    The digest of a folder is left open: comparing the files then names the one that changed.
    """
    begun = recorded_recipe(recorded)
    revision, tokenizer_revision = recipe.revision, recipe.tokenizer_revision
    if begun.dataset == FOLDER and revision == begun.revision:
        revision = None
    elif revision is None and recipe.dataset == begun.dataset:
        revision = begun.revision
    if tokenizer_revision is None and recipe.tokenizer == begun.tokenizer:
        tokenizer_revision = begun.tokenizer_revision
    return dataclasses.replace(recipe, revision=revision, tokenizer_revision=tokenizer_revision)


def with_changes(recorded: RecipeFields, changes: RecipeFields) -> Recipe:
    """A recorded recipe with some fields changed.

    A changed field opens the fields that depend on it: the config and the revision of another
    dataset, the revision of another tokenizer, the bound that excludes the changed one.
    """
    fields = dataclasses.asdict(recorded_recipe(recorded))
    for one, other in (("max_documents", "train_tokens"), ("train_tokens", "max_documents")):
        if one in changes:
            fields[other] = None
    if changes.get("dataset", fields["dataset"]) != fields["dataset"]:
        fields["config"] = None
    for name, pinned in (("dataset", "revision"), ("tokenizer", "tokenizer_revision")):
        if changes.get(name, fields[name]) != fields[name]:  # it may be the path of the same thing
            fields[pinned] = None
    return Recipe(**{**fields, **changes})


def _other_source(recipe: Recipe, recorded: Recipe) -> CorpusSource | None:
    """The source that a recipe names; None if it says no more than the recorded recipe."""
    dataset, revision = recipe.dataset, recipe.revision or recorded.revision
    if dataset == FOLDER or (dataset, revision) == (recorded.dataset, recorded.revision):
        return None
    return resolve_parquet_files(dataset, recipe.config, recipe.revision)


def _pin_names(recipe: Recipe, recorded: Recipe, source: CorpusSource | None) -> Recipe:
    """Resolve the names in a recipe, as far as they are not those of the recorded recipe already.

    The words that stand for a folder and a file in a pinned recipe are left as they are, because
    they lead nowhere.
    """
    dataset, revision = recipe.dataset, recipe.revision or recorded.revision
    if source is not None:
        dataset, revision = source.dataset, source.revision
    name, version = recipe.tokenizer, recipe.tokenizer_revision or recorded.tokenizer_revision
    if name != LOCAL and (name, version) != (recorded.tokenizer, recorded.tokenizer_revision):
        tokenizer = load_tokenizer(name, revision=recipe.tokenizer_revision)
        name, version = tokenizer.repository, tokenizer.revision
    return dataclasses.replace(
        recipe,
        dataset=dataset,
        revision=revision,
        tokenizer=name,
        tokenizer_revision=version,
        eos_token=recipe.eos_token or recorded.eos_token,
    )


def _differences(old: Recipe, new: Recipe) -> str:
    shown = (f"{name}: was {was!r}, is {now!r}" for name, was, now in old.differences(new))
    return "; ".join(shown)


def _check_files(reader: ReaderMetadata, pinned: Pinned) -> None:
    footers = reader["footers"]
    recorded = {name: (size, footers.get(name)) for name, size in reader["sizes"].items()}
    now = {file["name"]: (file["size"], file.get("footer")) for file in pinned.source.files}
    changed = [
        f"{name}: was {_shown(recorded.get(name))}, is {_shown(now.get(name))}"
        for name in sorted(recorded.keys() | now.keys())
        if recorded.get(name) != now.get(name)
    ]
    if changed:
        raise SourceChanged(
            f"the source changed since the run began ({'; '.join(changed[:5])}); restore the "
            "files, or start a fresh run in another output folder"
        )


def _shown(file: tuple[int, str | None] | None) -> str:
    if file is None:
        return "absent"
    size, footer = file
    return f"{size} bytes" + (f" with footer {footer[:12]}" if footer else "")


def _check_versions(recorded: dict[str, str]) -> None:
    now = versions()
    changed = [name for name in now if recorded.get(name) != now[name]]
    if not changed:
        return
    pins = " ".join(f"{n}=={recorded[n]}" for n in changed if n != "python" and n in recorded)
    shown = "; ".join(f"{name}: was {recorded.get(name)}, is {now[name]}" for name in changed)
    remedy = f"restore them with: pip install {pins}" if pins else "use the recorded ones"
    raise ResumeRefused(f"the run began with other versions ({shown}); {remedy}")
