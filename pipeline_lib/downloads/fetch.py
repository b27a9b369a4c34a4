"""From registered data sets to saved copies: look for a copy, plan, fetch, check, save.

A limit bounds the transfer too. Of a streaming data set the first rows are fetched. Of another one
files are fetched in seeded order until they hold enough rows, and a seeded sample of these rows is
saved. A data set of message trees is fetched whole, because a limit would cut trees; the limit
applies when it is read.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from pipeline_lib.downloads import saved
from pipeline_lib.downloads.formats import open_tables
from pipeline_lib.downloads.outcomes import Outcome, Status, attempt, of_saved
from pipeline_lib.downloads.plans import (
    EVERYTHING,
    DownloadPlan,
    FetchOptions,
    holds_enough,
    origin,
    plan_download,
)
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.saved import Saved
from pipeline_lib.errors import SourceError
from pipeline_lib.sources import row_stream

_LOG = logging.getLogger(__name__)


def fetch_all(
    specs: Mapping[str, DatasetSpec], data_dir: Path, options: FetchOptions
) -> list[Outcome]:
    """Fetch each data set, unless ``data_dir`` holds a copy with enough rows.

    The outcomes are in the order of ``specs``.
    """
    return [
        attempt(name, partial(_fetch_if_needed, name, spec, data_dir, options))
        for name, spec in specs.items()
    ]


def fetch(
    name: str, spec: DatasetSpec, data_dir: Path, options: FetchOptions | None = None
) -> Saved:
    """Fetch a data set and save it as ``data_dir/name``; an old copy is replaced at the end.

    If it fails, a ``PipelineError`` says why, and the old copy is still there.
    """
    options = options or FetchOptions()
    if spec.group is not None:
        options = replace(options, limit=EVERYTHING)
    plan = plan_download(spec, options)
    features, tables = open_tables(plan, options)
    if spec.max_bytes is not None:
        tables = row_stream.first_bytes(tables, spec.max_bytes, spec.counted)
    folder = data_dir / name
    done = saved.save(
        folder,
        tables,
        features,
        columns=spec.columns,
        origin=origin(plan, options),
        replace=folder.exists(),
    )
    if not options.limited and spec.max_bytes is None:
        _compare_rows(plan, done.rows)
    return done


def _fetch_if_needed(
    name: str, spec: DatasetSpec, data_dir: Path, options: FetchOptions
) -> Outcome:
    there = _usable_copy(data_dir / name, spec, options.limit)
    if there is not None:
        return of_saved(name, Status.THERE, there)
    return of_saved(name, Status.DONE, fetch(name, spec, data_dir, options))


def _usable_copy(folder: Path, spec: DatasetSpec, limit: int) -> Saved | None:
    """The saved copy; None if there is none, or if it holds fewer rows than ``limit``."""
    try:
        there = saved.find(folder)
    except saved.NotSaved:
        return None
    _check_origin(there, spec)
    saved.load(folder, spec.columns)
    return there if holds_enough(there, limit) else None


def _check_origin(there: Saved, spec: DatasetSpec) -> None:
    """``SourceError`` if the folder holds another data set than the registry names."""
    pinned = spec.revision if len(spec.revision) == 40 else there.origin.get("revision")
    wanted = {
        "path": spec.path,
        "config": spec.config,
        "splits": list(spec.splits),
        "revision": pinned,
        "max_bytes": spec.max_bytes,
        "capped": None if spec.max_bytes is None else list(spec.counted),
    }
    for key, value in wanted.items():
        found = there.origin.get(key)
        if found != value:
            raise SourceError(
                f"{there.folder} was made with {key} = {found!r}, download_data.py says {value!r}; "
                "remove the folder to fetch it again, or correct the registry"
            )


def _compare_rows(plan: DownloadPlan, rows: int) -> None:
    if plan.stated_rows and rows != plan.stated_rows:
        _LOG.warning(
            "WARNING: the card of %s states %s rows but its files hold %s",
            plan.listing.where,
            f"{plan.stated_rows:,}",
            f"{rows:,}",
        )
