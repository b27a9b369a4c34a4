"""From finished lanes to a published folder: one manifest, one rename."""

import functools
import logging
from collections.abc import Sequence
from pathlib import Path

from pipeline_lib import digest
from pipeline_lib.corpus import manifest, staging
from pipeline_lib.corpus.bounds import LaneEnd, ending, lane_end
from pipeline_lib.corpus.layout import MANIFEST, PAYLOAD
from pipeline_lib.corpus.manifest import (
    BLANK,
    NULL,
    CorpusIdentity,
    Counts,
    Manifest,
    ManifestContent,
    Measured,
    SplitCounts,
)
from pipeline_lib.corpus.pinned import Pinned
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.corpus.rejects import REASONS
from pipeline_lib.corpus.state import (
    SPLITS,
    BySplit,
    Checkpoint,
    EncoderUsed,
    FirstRejected,
    ReaderAlgorithm,
    ReaderMetadata,
)
from pipeline_lib.errors import SourceError
from pipeline_lib.records import ShardRecord, SourceFile
from pipeline_lib.selection import Split
from pipeline_lib.storage import sealed_folder

SPLIT_RULE = "first 64 bits of sha256(seed NUL text), big-endian, < val_fraction * 2**64: val"
TEXT_RULE = "text unaltered; null and white-space-only rows skipped; one end token per document"
_LOG = logging.getLogger(__name__)


def publish_run(
    pinned: Pinned, lanes: Sequence[Checkpoint], staging_dir: Path, output: Path
) -> Manifest:
    """Publish the shards of all lanes, given by their last commits in order, as ``output``.

    ``SourceError`` if a split holds no document; the staging folder is then removed, because the
    same recipe can only end in the same way. ``OutputExists`` if the payload holds a file that no
    run has written, or if the name of the output is taken.
    """
    try:
        metadata = build_manifest(pinned, lanes)
    except SourceError:
        staging.remove_staging(staging_dir)
        raise
    _warn_of_a_shortfall(pinned.recipe, metadata)
    payload = staging_dir / PAYLOAD
    named = {shard["file"] for split in SPLITS for shard in metadata["shards"][split]}
    staging.clean_payload(payload, named)
    sealed_folder.publish(payload, output, MANIFEST, metadata)
    staging.remove_staging(staging_dir)
    return metadata


def build_manifest(pinned: Pinned, lanes: Sequence[Checkpoint]) -> Manifest:
    """The manifest of a finished run, from the last commit of every lane in order.

    ``SourceError`` if the source has no rows or a split holds no document.
    """
    recipe, counts = pinned.recipe, _counts(lanes)
    _check_counts(pinned, counts)
    reader = lanes[0].reader
    content = ManifestContent(
        format_version=manifest.FORMAT_VERSION,
        source=CorpusIdentity(
            dataset=pinned.source.dataset,
            config=pinned.source.config,
            revision=pinned.source.revision,
            files=reader["files"],
            sizes=reader["sizes"],
            sha256={name: _sha256(pinned, lanes, name) for name in _files_read(lanes)},
        ),
        recipe=recipe.fields(),
        recipe_digest=recipe.digest,
        source_digest=_joined([lane.source_digest for lane in lanes]),
        split_rule=SPLIT_RULE,
        text_rule=TEXT_RULE,
        tokenizer=pinned.tokenizer.metadata(),
        dtype=pinned.tokenizer.dtype.str,
        counts=counts,
        train_token_target_reached=_target_reached(lanes) if recipe.train_tokens else None,
        shards=BySplit(train=_shards(lanes, "train"), val=_shards(lanes, "val")),
        reader=_algorithm(reader),
        rows_left_out=_left_out(lanes),
        lanes=_ends(recipe, lanes),
        unknown_tokens=sum(lane.losses["unknown_tokens"] for lane in lanes),
    )
    return manifest.seal(content, _measured(lanes, counts))


def _warn_of_a_shortfall(recipe: Recipe, metadata: Manifest) -> None:
    """Warn where tokens that were asked for are missing, or where one lane alone ended early."""
    by_source = [lane["ended_by"] == "source" for lane in metadata["lanes"]]
    if any(by_source) and (recipe.train_tokens is not None or not all(by_source)):
        _LOG.warning("less than was asked for: %s", ending(recipe, metadata["lanes"]))


def _check_counts(pinned: Pinned, counts: Counts) -> None:
    rows = counts["rows_visited"]
    if not rows:
        dataset = pinned.locations["dataset"]
        raise SourceError(f"the source {dataset} has no rows; check the path")
    found = manifest.counts_of_splits(counts)
    for split in SPLITS:
        if not found[split].documents:
            raise SourceError(
                f"the {split} split got no document out of {rows:,} rows; visit more rows, choose "
                "another --val-fraction, or check the text column"
            )


def _target_reached(lanes: Sequence[Checkpoint]) -> bool:
    return all(lane.train_token_target_reached for lane in lanes)


def _ends(recipe: Recipe, lanes: Sequence[Checkpoint]) -> list[LaneEnd]:
    return [
        lane_end(
            recipe,
            number,
            lane.source_rows_visited,
            lane.writers["train"]["tokens"],
            crossed=bool(lane.train_token_target_reached),
        )
        for number, lane in enumerate(lanes)
    ]


def _left_out(lanes: Sequence[Checkpoint]) -> dict[str, int]:
    found = {NULL: sum(lane.nulls for lane in lanes), BLANK: sum(lane.blanks for lane in lanes)}
    return found | {
        reason: sum(lane.rejected.get(reason, 0) for lane in lanes) for reason in REASONS
    }


def _algorithm(reader: ReaderMetadata) -> ReaderAlgorithm:
    return ReaderAlgorithm(
        interface=reader["interface"],
        column=reader["column"],
        batch_size=reader["batch_size"],
        read=reader["read"],
        shuffle=reader["shuffle"],
    )


def _files_read(lanes: Sequence[Checkpoint]) -> list[str]:
    """The files from which rows were taken, in reading order: of each lane those up to its cursor.

    Files that were only opened ahead are not among them, so that the recipe alone decides.
    """
    files = lanes[0].reader["files"]
    read = {
        name
        for number, lane in enumerate(lanes)
        if lane.source_rows_visited
        for name in files[number :: len(lanes)][: lane.cursor.file + 1]
    }
    return [name for name in files if name in read]


def _sealed(lanes: Sequence[Checkpoint], name: str) -> SourceFile | None:
    return next((lane.source_files[name] for lane in lanes if name in lane.source_files), None)


def _sha256(pinned: Pinned, lanes: Sequence[Checkpoint], name: str) -> str:
    seal = _sealed(lanes, name)
    return seal["sha256"] if seal else pinned.source.sha256(name)


def _shards(lanes: Sequence[Checkpoint], split: Split) -> list[ShardRecord]:
    return [shard for lane in lanes for shard in lane.writers[split]["shards"]]


def _counts(lanes: Sequence[Checkpoint]) -> Counts:
    train, val = _written(lanes, "train"), _written(lanes, "val")
    return Counts(
        rows_visited=sum(lane.source_rows_visited for lane in lanes),
        skipped_null=sum(lane.nulls for lane in lanes),
        skipped_blank=sum(lane.blanks for lane in lanes),
        prefetched_documents_not_written=sum(
            lane.prefetched_documents_not_written for lane in lanes
        ),
        train_documents=train.documents,
        train_tokens=train.tokens,
        val_documents=val.documents,
        val_tokens=val.tokens,
    )


def _written(lanes: Sequence[Checkpoint], split: Split) -> SplitCounts:
    states = [lane.writers[split] for lane in lanes]
    return SplitCounts(sum(s["documents"] for s in states), sum(s["tokens"] for s in states))


def _joined(digests: list[str]) -> str:
    """The digest of a single lane, or the digest of the list of digests of several lanes."""
    return digests[0] if len(digests) == 1 else digest.of_json(digests)


def _measured(lanes: Sequence[Checkpoint], counts: Counts) -> Measured:
    seconds = sum(lane.elapsed_seconds for lane in lanes)
    both = counts["train_tokens"] + counts["val_tokens"]
    return Measured(
        elapsed_seconds=round(seconds, 3),
        train_tokens_per_second=round(counts["train_tokens"] / max(seconds, 1e-9)),
        total_tokens_per_second=round(both / max(seconds, 1e-9)),
        versions=lanes[0].versions,
        encoders=_encoders(lanes),
        first_rejected=_first_rejected(lanes),
        decoded_again=sum(lane.losses["compared"] for lane in lanes),
        decoded_with_loss=sum(lane.losses["lost"] for lane in lanes),
        code_sha256=code_digest(),
        source_mtimes_ns={
            name: seal["mtime_ns"] for name in _files_read(lanes) if (seal := _sealed(lanes, name))
        },
    )


def _first_rejected(lanes: Sequence[Checkpoint]) -> list[FirstRejected]:
    """The first document that was left out for each reason, of the first lane that has one."""
    found: dict[str, FirstRejected] = {}
    for first in (first for lane in lanes for first in lane.first_rejected):
        found.setdefault(first["reason"], first)
    return list(found.values())


def _encoders(lanes: Sequence[Checkpoint]) -> list[EncoderUsed]:
    found: list[EncoderUsed] = []
    for used in (used for lane in lanes for used in lane.encoders):
        if used not in found[-1:]:
            found.append(used)
    return found


@functools.cache  # what runs was read when it was imported; later edits are not what runs
def code_digest() -> str:
    """SHA-256 over the names and contents of this package's modules."""
    folder = Path(__file__).parent.parent
    files = sorted(folder.rglob("*.py"))
    listing = [[file.relative_to(folder).as_posix(), digest.sha256_file(file)] for file in files]
    return digest.of_json(listing)
