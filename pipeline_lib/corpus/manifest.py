"""``metadata.json``: the manifest of a published folder, which vouches for itself.

``content_sha256`` covers the canonical JSON of everything but ``measured``, the one object that
depends on time, machine or luck. Equal recipes give equal shard files and an equal
``content_sha256``. ``manifest_sha256`` covers ``measured`` too, so that no change of the file
passes unnoticed.
"""

from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

import numpy as np

from pipeline_lib import digest
from pipeline_lib.corpus.bounds import LaneEnd
from pipeline_lib.corpus.layout import MANIFEST
from pipeline_lib.corpus.recipe import RecipeFields
from pipeline_lib.corpus.state import BySplit, EncoderUsed, FirstRejected, ReaderAlgorithm
from pipeline_lib.errors import DamagedFile
from pipeline_lib.records import ShardRecord, SourceFile, TokenizerMetadata
from pipeline_lib.storage import atomic, typed_json

FORMAT_VERSION = 2
FIRST_VERSION = 1
"""Manifests of this version are read too: they lack what ``FirstContent`` lacks."""
NULL, BLANK = "null", "blank"
"""Reasons for which a row became no document."""
_NOT_CONTENT = ("content_sha256", "measured", "manifest_sha256")


class CorpusIdentity(TypedDict):
    """The pinned source. ``files``: names in reading order. ``sizes``: bytes of each file.

    ``sha256``: of each file from which the run took a row, hex; from the first version it is
    absent.
    """

    dataset: str
    config: str | None
    revision: str
    files: list[str]
    sizes: dict[str, int]
    sha256: NotRequired[dict[str, str]]


class Counts(TypedDict):
    """Rows, documents and tokens of a run. Tokens include the end token of each document.

    Every visited row was left out for a reason (see ``ManifestContent.rows_left_out``), became a
    document of a split, or stood behind the document that crossed the token bound
    (``prefetched_documents_not_written``). ``skipped_null`` and ``skipped_blank`` are two of the
    reasons.
    """

    rows_visited: int
    skipped_null: int
    skipped_blank: int
    prefetched_documents_not_written: int
    train_documents: int
    train_tokens: int
    val_documents: int
    val_tokens: int


class SplitCounts(NamedTuple):
    """Documents and tokens of one split."""

    documents: int
    tokens: int


class AnyMeasured(TypedDict):
    """Measurements, which may differ between runs of one recipe.

    ``elapsed_seconds`` is over all sessions; ``code_sha256`` covers the modules of this package.
    """

    elapsed_seconds: float
    train_tokens_per_second: int
    total_tokens_per_second: int
    versions: dict[str, str]
    code_sha256: str


class Measured(AnyMeasured):
    """``encoders``: all that made ids, in order, lane by lane. ``source_mtimes_ns``: time of change
    of each local file whose SHA-256 the content names. ``first_rejected``: the first document
    without ids for each reason. ``decoded_again``: documents whose ids were decoded, and
    ``decoded_with_loss`` those of them of which text was missing."""

    encoders: list[EncoderUsed]
    source_mtimes_ns: dict[str, int]
    first_rejected: list[FirstRejected]
    decoded_again: int
    decoded_with_loss: int


class FirstMeasured(AnyMeasured):
    """``encoder``: the last that made ids."""

    encoder: EncoderUsed | None


class FirstContent(TypedDict):
    """What every version of a manifest says of its content.

    ``dtype``: of the tokens, as numpy spells it. ``train_token_target_reached``: None without a
    token bound. ``shards``: of each split, in order. Digests are hex SHA-256.
    """

    format_version: int
    source: CorpusIdentity
    recipe: RecipeFields
    recipe_digest: str
    source_digest: str
    split_rule: str
    text_rule: str
    tokenizer: TokenizerMetadata
    dtype: str
    counts: Counts
    train_token_target_reached: bool | None
    shards: BySplit[list[ShardRecord]]


class ManifestContent(FirstContent):
    """The part of a manifest that the recipe and the content of its source decide.

    ``reader``: how rows were read and ordered. ``rows_left_out``: reason -> rows that became no
    document; a reason is there even where it took no row. ``lanes``: where each lane ended, in
    order. ``unknown_tokens``: tokens that stand for text which the vocabulary does not have.
    """

    reader: ReaderAlgorithm
    rows_left_out: dict[str, int]
    lanes: list[LaneEnd]
    unknown_tokens: int


class Manifest(ManifestContent):
    """A whole manifest: content, measurements, and the two digests that vouch for them.

    One of the first version lacks what ``FirstContent`` and ``FirstMeasured`` lack: see
    ``is_first``.
    """

    content_sha256: str
    measured: Measured
    manifest_sha256: str


class _FirstManifest(FirstContent):
    content_sha256: str
    measured: FirstMeasured
    manifest_sha256: str


def seal(content: ManifestContent, measured: Measured) -> Manifest:
    """A manifest of this content and these measurements."""
    whole = {**content, "content_sha256": digest.of_json(content), "measured": measured}
    return cast(Manifest, {**whole, "manifest_sha256": digest.of_json(whole)})


def content_of(manifest: Manifest) -> ManifestContent:
    """The part that ``content_sha256`` covers."""
    content = {name: value for name, value in manifest.items() if name not in _NOT_CONTENT}
    return cast(ManifestContent, content)


def load(folder: Path) -> Manifest:
    """The manifest of a published folder, checked against its own two digests.

    ``FileNotFoundError`` if there is none; ``DamagedFile`` if it was changed, and where both
    digests are right and a field is not, the error names the field.
    """
    path = folder / MANIFEST
    found = atomic.load_json(path)
    _check_digests(path, found if isinstance(found, dict) else {})
    version = found.get("format_version")
    if version not in (FIRST_VERSION, FORMAT_VERSION):
        raise DamagedFile(
            f"{path} has format {version}, this program reads {FIRST_VERSION} and "
            f"{FORMAT_VERSION}; use the version that wrote it"
        )
    kind: Any = _FirstManifest if version == FIRST_VERSION else Manifest
    typed_json.as_typed(found, kind, str(path))
    return cast(Manifest, found)  # with fields that are unknown here: the digests cover them too


def _check_digests(path: Path, found: dict[str, Any]) -> None:  # before its fields are known
    whole = {name: value for name, value in found.items() if name != "manifest_sha256"}
    content = content_of(cast(Manifest, found))
    for name, covered in (("content_sha256", content), ("manifest_sha256", whole)):
        if name not in found and found:
            raise DamagedFile(
                f"{path} has no {name}: an earlier version wrote it, or it was changed; prepare "
                "the folder again"
            )
        if found.get(name) != digest.of_json(covered):
            raise DamagedFile(
                f"{path} does not match its own {name}, so it was changed after it was "
                "written; restore it from a copy or prepare the folder again"
            )


def counts_of_splits(counts: Counts) -> BySplit[SplitCounts]:
    """The documents and tokens of each split."""
    return BySplit(
        train=SplitCounts(counts["train_documents"], counts["train_tokens"]),
        val=SplitCounts(counts["val_documents"], counts["val_tokens"]),
    )


def source_seals(manifest: Manifest) -> dict[str, SourceFile]:
    """The recorded size, SHA-256 and time of change of each local file that gave rows."""
    if is_first(manifest):
        return {}
    source, times = manifest["source"], manifest["measured"]["source_mtimes_ns"]
    return {
        name: SourceFile(name=name, size=source["sizes"][name], sha256=sha256, mtime_ns=times[name])
        for name, sha256 in source.get("sha256", {}).items()
        if name in times
    }


def is_first(manifest: Manifest) -> bool:
    """Whether a manifest is of the first version, which lacks the fields that came later."""
    return manifest["format_version"] == FIRST_VERSION


def encoders(manifest: Manifest) -> list[EncoderUsed]:
    """The encoders that made the ids, in order, of any version."""
    measured: Any = manifest["measured"]  # the first version names the last encoder alone
    used = [measured["encoder"]] if is_first(manifest) else measured["encoders"]
    return [one for one in used if one is not None]


def rows_left_out(manifest: Manifest) -> dict[str, int]:
    """Reason -> rows that became no document, of any version."""
    counts = manifest["counts"]
    first = {NULL: counts["skipped_null"], BLANK: counts["skipped_blank"]}
    return first if is_first(manifest) else manifest["rows_left_out"]


def rows_accounted_for(manifest: Manifest) -> int:
    """Rows that were left out or written; a sound manifest has visited just as many."""
    counts = manifest["counts"]
    return (
        sum(rows_left_out(manifest).values())
        + counts["train_documents"]
        + counts["val_documents"]
        + counts["prefetched_documents_not_written"]
    )


def dtype_of(manifest: Manifest) -> np.dtype[Any]:
    """The dtype of the tokens in the shards."""
    dtype: np.dtype[Any] = np.dtype(manifest["dtype"])
    return dtype
