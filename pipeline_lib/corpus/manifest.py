"""``metadata.json``: what a published folder is, and how to tell that it is still that.

``content_sha256`` covers the canonical JSON of everything but ``measured``, the one object
that depends on time, machine or luck. Equal recipes give equal shard files and an equal
``content_sha256``. ``manifest_sha256`` covers all of that, ``measured`` too, so that no change
of the file passes unnoticed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline_lib import digest
from pipeline_lib.corpus.pinned import Pinned
from pipeline_lib.corpus.shards import SPLITS
from pipeline_lib.corpus.staging import MANIFEST
from pipeline_lib.errors import DamagedFile, SourceError
from pipeline_lib.storage import atomic

FORMAT_VERSION = 1
NAMES = {
    "format_version", "source", "recipe", "recipe_digest", "source_digest", "split_rule",
    "text_rule", "tokenizer", "dtype", "counts", "train_token_target_reached", "shards",
    "content_sha256", "measured", "manifest_sha256",
}  # fmt: skip
FATES = (
    "skipped_null", "skipped_blank", "train_documents", "val_documents",
    "prefetched_documents_not_written",
)  # fmt: skip
"""Counts that together are the rows visited: what became of each."""
_NOT_CONTENT = ("content_sha256", "measured", "manifest_sha256")
SPLIT_RULE = "first 64 bits of sha256(seed NUL text), big-endian, < val_fraction * 2**64: val"
TEXT_RULE = "text unaltered; null and white-space-only rows skipped; one end token per document"


def build(pinned: Pinned, lanes: Sequence[dict[str, Any]], code_sha256: str) -> dict[str, Any]:
    """The manifest of a finished run, from the last checkpoint of every lane in order.

    ``SourceError`` if a split holds no document.
    """
    recipe = pinned.recipe
    if not any(lane["source_rows_visited"] for lane in lanes):
        raise SourceError(f"the source {pinned.locations['dataset']} has no rows; check the path")
    shards = {
        s: [shard for lane in lanes for shard in lane["writers"][s]["shards"]] for s in SPLITS
    }
    counts = _counts(lanes)
    for split in SPLITS:
        if not counts[f"{split}_documents"]:
            raise SourceError(
                f"the {split} split got no document out of {counts['rows_visited']:,} rows; visit "
                "more rows, choose another --val-fraction, or check the text column"
            )
    reached = [lane["train_token_target_reached"] for lane in lanes]
    content = {
        "format_version": FORMAT_VERSION,
        "source": {
            "dataset": recipe.dataset,
            "config": recipe.config,
            "revision": recipe.revision,
            "files": lanes[0]["reader"]["files"],
            "sizes": lanes[0]["reader"]["sizes"],
        },
        "recipe": recipe.fields(),
        "recipe_digest": recipe.digest,
        "source_digest": _joined([lane["source_digest"] for lane in lanes]),
        "split_rule": SPLIT_RULE,
        "text_rule": TEXT_RULE,
        "tokenizer": pinned.tokenizer.metadata(),
        "dtype": pinned.tokenizer.dtype.str,
        "counts": counts,
        "train_token_target_reached": all(reached) if recipe.train_tokens else None,
        "shards": shards,
    }
    return seal(content, _measured(lanes, counts, code_sha256))


def seal(content: dict[str, Any], measured: dict[str, Any]) -> dict[str, Any]:
    """A manifest: content and measurements with the two digests that vouch for them."""
    whole = {**content, "content_sha256": digest.of_json(content), "measured": measured}
    return {**whole, "manifest_sha256": digest.of_json(whole)}


def content_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """What ``content_sha256`` covers."""
    return {name: value for name, value in manifest.items() if name not in _NOT_CONTENT}


def _counts(lanes: Sequence[dict[str, Any]]) -> dict[str, int]:
    def total(name: str) -> int:
        return sum(lane[name] for lane in lanes)

    counts = {
        "rows_visited": total("source_rows_visited"),
        "skipped_null": total("nulls"),
        "skipped_blank": total("blanks"),
        "prefetched_documents_not_written": total("prefetched_documents_not_written"),
    }
    for split in SPLITS:
        states = [lane["writers"][split] for lane in lanes]
        counts[f"{split}_documents"] = sum(state["documents"] for state in states)
        counts[f"{split}_tokens"] = sum(state["tokens"] for state in states)
    return counts


def _joined(digests: list[str]) -> str:
    """One lane: its own digest; several: the digest of the list of theirs."""
    return digests[0] if len(digests) == 1 else digest.of_json(digests)


def _measured(
    lanes: Sequence[dict[str, Any]], counts: dict[str, int], code_sha256: str
) -> dict[str, Any]:
    seconds = sum(lane["elapsed_seconds"] for lane in lanes)
    both = counts["train_tokens"] + counts["val_tokens"]
    return {
        "elapsed_seconds": round(seconds, 3),
        "train_tokens_per_second": round(counts["train_tokens"] / max(seconds, 1e-9)),
        "total_tokens_per_second": round(both / max(seconds, 1e-9)),
        "versions": lanes[0]["versions"],
        "encoder": lanes[0]["encoder"],
        "code_sha256": code_sha256,
    }


def code_digest() -> str:
    """SHA-256 over the names and contents of this package's modules."""
    folder = Path(__file__).parent.parent
    files = sorted(folder.rglob("*.py"))
    listing = [[file.relative_to(folder).as_posix(), digest.sha256_file(file)] for file in files]
    return digest.of_json(listing)


def load(folder: Path) -> dict[str, Any]:
    """The manifest of a published folder, checked against its own two digests.

    ``FileNotFoundError`` if there is none, ``DamagedFile`` if it was changed.
    """
    path = folder / MANIFEST
    found = atomic.load_json(path)
    manifest: dict[str, Any] = found if isinstance(found, dict) else {}
    whole = {name: value for name, value in manifest.items() if name != "manifest_sha256"}
    for name, covered in (("content_sha256", content_of(manifest)), ("manifest_sha256", whole)):
        if name not in manifest and manifest:
            raise DamagedFile(
                f"{path} has no {name}: an earlier version wrote it, or it was changed; prepare "
                "the folder again"
            )
        if manifest.get(name) != digest.of_json(covered):
            raise DamagedFile(
                f"{path} does not match its own {name}, so it was changed after it was "
                "written; restore it from a copy or prepare the folder again"
            )
    if manifest.get("format_version") != FORMAT_VERSION:
        raise DamagedFile(
            f"{path} has format {manifest.get('format_version')}, this program reads "
            f"{FORMAT_VERSION}; use the version that wrote it"
        )
    return manifest


def dtype_of(manifest: dict[str, Any]) -> np.dtype[Any]:
    """The shard dtype."""
    dtype: np.dtype[Any] = np.dtype(manifest["dtype"])
    return dtype
