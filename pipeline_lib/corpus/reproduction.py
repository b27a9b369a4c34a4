"""A published folder is made again from its source and tokenizer, and compared; nothing is written.

The lanes run as in ``prepare``, one after another. Their documents go to a store that compares them
with the published shards (``comparing_store``), and from their last commits the manifest is built
again. So every byte of the shards and every field of the manifest is compared, but what is
``measured``: times, rates, versions of packages, the encoder. Of those, what differs is noted.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pipeline_lib.corpus import manifest
from pipeline_lib.corpus.batches import Probing
from pipeline_lib.corpus.comparing_store import LONGEST
from pipeline_lib.corpus.first_format import in_format_of, measured_in_format_of
from pipeline_lib.corpus.job import Job
from pipeline_lib.corpus.lane_comparison import ComparedLane, Findings, compare_lane, joined
from pipeline_lib.corpus.layout import MANIFEST
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.manifest_differences import differences
from pipeline_lib.corpus.options import PrepareOptions
from pipeline_lib.corpus.pinned import Pinned, pin
from pipeline_lib.corpus.publish import build_manifest
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.shard_comparer import SHOWN
from pipeline_lib.corpus.state import SPLITS, Checkpoint
from pipeline_lib.corpus.verify import Faults, check_manifest, check_strays
from pipeline_lib.errors import DamagedFile, SourceError
from pipeline_lib.records import FOLDER, LOCAL, LaneProgress
from pipeline_lib.storage import typed_json
from pipeline_lib.tokenization.reference import ReferenceEncoder

PROBED = 100
"""One document in so many is encoded by the reference, too; of few documents, about so many."""


NOTHING = "nothing was made again"
NO_LIMIT = 2**63
REFERENCE_NAME = ReferenceEncoder.name
TIMES = (
    *("elapsed_seconds", "train_tokens_per_second", "total_tokens_per_second"),
    *("source_mtimes_ns", "decoded_again", "decoded_with_loss"),
)
"""Fields of ``measured`` that differ from run to run, or with the number of documents that are
checked; they are not compared."""


class Reproduction(NamedTuple):
    """The result of ``reproduce``, each line for people.

    ``faults``: what differs; an empty list means that the folder is what its recipe makes.
    ``notes``: measured things that differ, and what could not be compared. ``done``: what was made
    again.
    """

    faults: list[str]
    notes: list[str]
    done: str


def reproduce(
    folder: Path,
    source: str | None = None,
    tokenizer: str | None = None,
    on_progress: Callable[[LaneProgress], None] = lambda progress: None,
) -> Reproduction:
    """Make a published folder again in memory and compare every byte and every field.

    ``source``: the Hub dataset or folder that it was made from; ``tokenizer``: the tokenizer. Both
    may be left out if they are on the Hub. It takes about the time and the memory of the run.
    Nothing is written, but the Hub's cache is filled. Errors are those of ``prepare`` for a source
    or tokenizer that can not be used, and ``ValueError`` if a local one is not given.
    """
    folder = Path(folder)
    try:
        found = manifest.load(folder)
        recipe = Recipe.from_fields(found["recipe"])
    except (FileNotFoundError, NotADirectoryError):
        fault = f"{folder} has no {MANIFEST}, so it is not a published folder"
        return Reproduction([fault], [], NOTHING)
    except (DamagedFile, ValueError, TypeError) as error:
        return Reproduction([f"{folder}: {error}"], [], NOTHING)
    pinned, notes = _pinned_again(recipe, found, source, tokenizer)
    if others := list(_other_inputs(folder, found, recipe, pinned)):
        return Reproduction(others, notes, NOTHING)
    return _compared(folder, found, pinned, on_progress, notes)


def _compared(
    folder: Path,
    found: Manifest,
    pinned: Pinned,
    on_progress: Callable[[LaneProgress], None],
    notes: list[str],
) -> Reproduction:
    options = PrepareOptions(
        encoder=_encoder_kind(found), checkpoint_interval=math.inf, on_progress=on_progress
    )
    job, probing = Job(pinned, folder, options), _probing(found)
    lanes = [compare_lane(job, lane, found, probing) for lane in range(pinned.recipe.lanes)]
    more: Faults = {}
    check_manifest(folder / MANIFEST, found, more)
    check_strays(folder, found, more)
    fields, measured = _fields(folder, found, pinned, [lane.last for lane in lanes])
    faults = [
        *joined(lane.documents for lane in lanes).shown("documents that differ"),
        *joined(lane.files for lane in lanes).shown("shards with other sizes or headers"),
        *joined(lane.encodings for lane in lanes).shown("documents with ids of their own"),
        *fields.shown("fields that differ"),
        *more.values(),
    ]
    return Reproduction(faults, [*notes, *measured], _done(lanes))


def _probing(found: Manifest) -> Probing:
    counts = manifest.counts_of_splits(found["counts"])
    documents = sum(counts[split].documents for split in SPLITS)
    return Probing(max(1, min(PROBED, documents // PROBED)), NO_LIMIT)


def _encoder_kind(found: Manifest) -> str:
    """The recorded encoder; of the fast one it is proved again that it can be used."""
    names = {used["name"] for used in manifest.encoders(found)}
    return "tokenizers" if names == {REFERENCE_NAME} else "auto"


def _fields(
    folder: Path, found: Manifest, pinned: Pinned, lanes: Sequence[Checkpoint]
) -> tuple[Findings, list[str]]:
    """The fields of the manifest that differ, and notes on measured ones."""
    path = folder / MANIFEST
    try:
        made = typed_json.as_plain(build_manifest(pinned, lanes))
    except SourceError as error:
        return Findings([f"{path}: {error}"], 1), []
    measured = measured_in_format_of(made["measured"], found)
    content, missing = in_format_of(manifest.content_of(made), found)
    lines = [
        f"{path}: {field.where} is {field.found}, made again it is {field.made}"
        for field in differences(content, manifest.content_of(found))
    ]
    notes = (
        [
            f"the manifest has format {found['format_version']}, so these fields could not be "
            f"compared: {', '.join(missing)}"
        ]
        if missing
        else []
    )
    notes += [
        f"measured.{field.where} is {field.found}, here it is {field.made}"
        for field in differences(measured, found["measured"])
        if field.where.partition(".")[0] not in TIMES
    ]
    return Findings(lines, len(lines)), notes


def _done(lanes: Sequence[ComparedLane]) -> str:
    states = [lane.last.writers[split] for lane in lanes for split in SPLITS]
    documents, tokens = sum(s["documents"] for s in states), sum(s["tokens"] for s in states)
    checked, long = sum(lane.checked for lane in lanes), sum(lane.long for lane in lanes)
    by = f"{checked:,} of them also by the reference encoder"
    if {lane.encoder for lane in lanes} <= {REFERENCE_NAME, None}:
        by = "all of them by the reference encoder"
    done = f"{documents:,} documents with {tokens:,} tokens were made again, {by}"
    return done + (f"; it skipped {long:,} texts above {LONGEST:,} bytes" if long else "")


def _pinned_again(
    recipe: Recipe, found: Manifest, source: str | None, tokenizer: str | None
) -> tuple[Pinned, list[str]]:
    """The recipe pinned as it was recorded, with the source and the tokenizer that were given."""
    for thing, given, local in (
        ("source", source, recipe.dataset == FOLDER),
        ("tokenizer", tokenizer, recipe.tokenizer == LOCAL),
    ):
        if given is None and local:
            raise ValueError(f"the folder was made with a local {thing}; give it by --{thing}")
    changes: dict[str, str | None] = {}
    if source is not None and (Path(source).is_dir() or source != recipe.dataset):
        config = recipe.config if recipe.dataset == FOLDER or not Path(source).is_dir() else None
        changes |= {"dataset": source, "config": config, "revision": None}
    if tokenizer is not None and tokenizer != recipe.tokenizer:
        changes |= {"tokenizer": tokenizer, "tokenizer_revision": None}
    pinned = pin(dataclasses.replace(recipe, **changes))  # type: ignore[arg-type]
    if recipe.tokenizer == LOCAL or pinned.recipe.tokenizer == recipe.tokenizer:
        return pinned, []
    return _as_recorded(pinned, recipe), [
        f"the tokenizer was read from {tokenizer}; that {recipe.tokenizer} holds the same is not "
        "looked up"
    ]


def _as_recorded(pinned: Pinned, recipe: Recipe) -> Pinned:
    """The tokenizer under its recorded name: its SHA-256 is compared, not where it was found."""
    name, revision = recipe.tokenizer, recipe.tokenizer_revision or ""
    return dataclasses.replace(
        pinned,
        recipe=dataclasses.replace(
            pinned.recipe, tokenizer=name, tokenizer_revision=recipe.tokenizer_revision
        ),
        tokenizer=dataclasses.replace(pinned.tokenizer, repository=name, revision=revision),
    )


def _other_inputs(folder: Path, found: Manifest, recipe: Recipe, pinned: Pinned) -> Iterator[str]:
    """What makes comparing pointless: another source or tokenizer than the recorded one."""
    was = (recipe.dataset, recipe.config, recipe.revision)
    now = (pinned.recipe.dataset, pinned.recipe.config, pinned.recipe.revision)
    if was != now:
        sizes = {file["name"]: file["size"] for file in pinned.source.files}
        files = [f"{d.where}: {d.found} bytes recorded, {d.made} there" for d in islice(
            differences(sizes, found["source"]["sizes"]), SHOWN
        )]  # fmt: skip
        yield f"{folder} was made from the source {was}, not {now}; {'; '.join(files)}".rstrip("; ")
    if pinned.tokenizer.sha256 != found["tokenizer"]["sha256"]:
        yield (
            f"{folder} was made with the tokenizer {found['tokenizer']['sha256']}, not "
            f"{pinned.tokenizer.sha256}"
        )
