"""A manifest as the first format tells it, to be compared with one of that format."""

from typing import Any, cast

from pipeline_lib.corpus.manifest import (
    FIRST_VERSION,
    AnyMeasured,
    FirstContent,
    Manifest,
    ManifestContent,
    Measured,
    is_first,
)
from pipeline_lib.records import ShardRecord


def in_format_of(made: ManifestContent, found: Manifest) -> tuple[ManifestContent, list[str]]:
    """A content as far as a manifest of the version of ``found`` tells it, and what is left out."""
    if not is_first(found):
        return made, []
    known = set(FirstContent.__annotations__)
    told: dict[str, Any] = {name: value for name, value in made.items() if name in known}
    source = {name: value for name, value in made["source"].items() if name != "sha256"}
    told["shards"] = {
        "train": _first_records(made["shards"]["train"]),
        "val": _first_records(made["shards"]["val"]),
    }
    missing = sorted(
        [*(made.keys() - known), *(f"source.{n}" for n in made["source"].keys() - source)]
    )
    return cast(
        ManifestContent, {**told, "source": source, "format_version": FIRST_VERSION}
    ), missing


def _first_records(shards: list[ShardRecord]) -> list[dict[str, Any]]:
    return [{name: value for name, value in s.items() if name != "first_row"} for s in shards]


def measured_in_format_of(made: Measured, found: Manifest) -> dict[str, Any]:
    """Measurements as far as a manifest of the version of ``found`` tells them."""
    if not is_first(found):
        return {**made}
    told = {name: value for name, value in made.items() if name in AnyMeasured.__annotations__}
    return {**told, "encoder": made["encoders"][-1] if made["encoders"] else None}
