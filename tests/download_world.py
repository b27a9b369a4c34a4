"""Small data sets on the loopback hub, fetched as the command line does it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from loopback_hub import Hub
from loopback_hub.publish import publish_dataset

from pipeline_lib.downloads import fetch, saved
from pipeline_lib.downloads.outcomes import Outcome, Status
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.hub.retry import RetryPolicy

QUICK = RetryPolicy(tries=2, first_pause=0.01)
TEXT = {"text": pa.string()}


def spec(**more: Any) -> DatasetSpec:
    """An entry of the registry for ``acme/chat``."""
    chosen = {"path": "acme/chat", "role": "dialogue", "columns": TEXT} | more
    return DatasetSpec(licence="MIT", citation="none", **chosen)


def texts(*values: str) -> pa.Table:
    """Rows with one column of text."""
    return pa.table({"text": pa.array(values, pa.string())})


def publish(hub: Hub, *files: pa.Table, **more: Any) -> None:
    """Put these files on the hub as ``acme/chat``."""
    publish_dataset(hub, "acme/chat", {"default": {"train": list(files)}}, **more)


def get(folder: Path, kind: DatasetSpec, limit: int = -1, **more: Any) -> saved.Saved:
    """Fetch one data set as ``folder/chat``."""
    return fetch.fetch("chat", kind, folder, FetchOptions(limit=limit, retries=QUICK, **more))


def get_all(folder: Path, limit: int = -1, **kinds: DatasetSpec) -> dict[str, Outcome]:
    """Fetch the data sets that are not there; the outcome of each."""
    outcomes = fetch.fetch_all(kinds, folder, FetchOptions(limit=limit, retries=QUICK))
    return {outcome.name: outcome for outcome in outcomes}


def by_name(outcomes: Iterable[Outcome]) -> dict[str, Status]:
    """The status of each data set."""
    return {outcome.name: outcome.status for outcome in outcomes}


def read(folder: Path) -> list[str]:
    """The texts that were saved."""
    return list(saved.load(folder / "chat")["text"])
