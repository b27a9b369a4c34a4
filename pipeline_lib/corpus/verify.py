"""Re-check a published folder: its manifest, every byte of its shards, and what else is there."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline_lib import digest
from pipeline_lib.corpus import manifest, staging
from pipeline_lib.corpus.shards import SPLITS
from pipeline_lib.corpus.staging import MANIFEST
from pipeline_lib.corpus.verify_tokens import Faults, check_split
from pipeline_lib.errors import DamagedFile
from pipeline_lib.storage import atomic

_LOG = logging.getLogger(__name__)


def verify(folder: Path, on_shard: Callable[[str], None] = lambda name: None) -> list[str]:
    """First fault of each kind, as one line each; an empty list means that all is well.

    Checks digests, spelling and sums of the manifest; re-hashes every shard and checks names,
    sizes, headers, id range, document borders, and that there are as many end tokens as
    documents; looks for stray files. What operating systems leave in folders is no fault but
    a warning in the log. Memory does not grow with the folder.
    """
    try:
        found = manifest.load(folder)
    except (FileNotFoundError, NotADirectoryError):
        return [f"{folder} has no {MANIFEST}, so it is not a published folder"]
    except DamagedFile as error:
        return [str(error)]
    lacking = sorted(manifest.NAMES - found.keys())
    if lacking:
        return [f"{folder / MANIFEST} lacks {', '.join(lacking)}, so no run has written it"]
    faults: Faults = {}
    _check_manifest(folder / MANIFEST, found, faults)
    for split in SPLITS:
        for kind, fault in check_split(folder, found, split, on_shard).items():
            faults.setdefault(kind, fault)
    _check_strays(folder, found, faults)
    return list(faults.values())


def _check_manifest(path: Path, found: dict[str, Any], faults: Faults) -> None:
    if path.read_bytes() != atomic.json_bytes(found):
        faults["spelling"] = (
            f"{path} says what it should but is not spelled as it was written (spaces, line ends "
            "or repeated names); restore it from a copy"
        )
    if found["recipe_digest"] != digest.of_json(found["recipe"]):
        faults["recipe"] = f"{path}: recipe_digest is not the digest of the recipe"
    counts = found["counts"]
    rows = sum(counts[name] for name in manifest.FATES)
    if rows != counts["rows_visited"]:
        faults["rows"] = (
            f"{path}: {counts['rows_visited']:,} rows were visited, {rows:,} are accounted for"
        )


def _check_strays(folder: Path, found: dict[str, Any], faults: Faults) -> None:
    named = {shard["file"] for split in SPLITS for shard in found["shards"][split]}
    for path in sorted(folder.iterdir()):
        if staging.is_os_file(path.name):
            _LOG.warning("%s was left there by an operating system; it may be removed", path)
        elif path.name not in named | {MANIFEST}:
            faults.setdefault("stray", f"{path} is not named by the manifest; move it away")
