"""From a registered source to a data set on disk: plan_download, fetch verified, check, save.

With a limit only what it needs is fetched: for a streaming source the first files in stored
order and of them the first rows, else files in seeded order until they hold enough rows and
of those a seeded sample. Of parquet every column is kept; of JSON Lines, which state no types,
those of the registry. A source of message trees is always fetched whole, because a cut
tree is no tree; it is limited where it is read.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline_lib.columns import check_columns
from pipeline_lib.downloads import saved
from pipeline_lib.downloads.plans import (
    EVERYTHING,
    DownloadPlan,
    FetchOptions,
    origin,
    plan_download,
)
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.errors import SourceError
from pipeline_lib.hub import client
from pipeline_lib.selection import sample
from pipeline_lib.shuffling import file_order
from pipeline_lib.sources import json_lines, row_stream

if TYPE_CHECKING:
    import datasets

_LOG = logging.getLogger(__name__)


def fetch(
    name: str, source: DatasetSpec, data_dir: Path, options: FetchOptions | None = None
) -> saved.Saved:
    """Fetch a source and save it as ``data_dir/name``; what is there is replaced at the end.

    ``PipelineError`` subclasses say what went wrong; then nothing on disk has changed.
    """
    options = options or FetchOptions()
    planned = plan_download(source, options)
    limit = EVERYTHING if source.group else options.limit
    features, stream = _open(planned, limit, options)
    if source.max_bytes is not None:
        stream = row_stream.first_bytes(stream, source.max_bytes)
    folder = data_dir / name
    done = saved.save(
        folder,
        stream,
        features,
        columns=source.columns,
        origin=origin(planned, limit, options.seed),
        replace=folder.exists(),
    )
    if limit == EVERYTHING and source.max_bytes is None and planned.stated_rows:
        _compare_rows(planned, done.rows)
    return done


def _open(
    planned: DownloadPlan, limit: int, options: FetchOptions
) -> tuple["datasets.Features", Iterator[pa.Table]]:
    """The features of a source and its rows as a stream of tables that have them."""
    if planned.lines:
        return _open_lines(planned, limit, options)
    if planned.builder != "parquet":
        return _open_other(planned, limit, options)
    source, names = planned.source, [file.path for file in planned.files]
    sampled = limit != EVERYTHING and not source.streaming
    if sampled:
        names = file_order(names, options.seed)
    paths, rows = _fetch_parquet(planned, names, limit, options)
    found = row_stream.parquet_schema(paths, source.columns)
    features = _features(planned, found)
    stream = row_stream.parquet_tables(paths, features.arrow_schema)
    if sampled and rows > limit:
        stream = row_stream.picked_rows(stream, sample(rows, limit, options.seed, "fetch"))
    elif limit != EVERYTHING:
        stream = row_stream.first_rows(stream, limit)
    return features, stream


def _fetch_parquet(
    planned: DownloadPlan, names: list[str], limit: int, options: FetchOptions
) -> tuple[list[Path], int]:
    """Files in the given order until they hold enough rows or bytes; and the rows they hold."""
    paths: list[Path] = []
    rows = size = 0
    for name in names:
        paths.append(_fetch_one(planned, name, len(paths), options))
        more_rows, more_bytes = row_stream.parquet_size(paths[-1])
        rows, size = rows + more_rows, size + more_bytes
        if limit != EVERYTHING and rows >= limit:
            break
        if planned.source.max_bytes is not None and size >= planned.source.max_bytes:
            break
    return paths, rows


def _fetch_one(planned: DownloadPlan, name: str, done: int, options: FetchOptions) -> Path:
    path = client.fetch_file(
        planned.listing, name, on_wait=options.on_wait, retries=options.retries
    )
    if options.on_progress is not None:
        options.on_progress(name, done + 1, len(planned.files))
    return path


def _open_lines(
    planned: DownloadPlan, limit: int, options: FetchOptions
) -> tuple["datasets.Features", Iterator[pa.Table]]:
    """JSON Lines: the columns of the registry; over the network no further than a limit needs."""
    import datasets

    columns = planned.source.columns
    features = datasets.Features.from_arrow_schema(pa.schema(list(columns.items())))
    if limit != EVERYTHING and planned.source.streaming:
        stream = json_lines.line_tables(_remote_lines(planned, options), columns)
        return features, row_stream.first_rows(stream, limit)
    stream = json_lines.line_tables(_local_lines(planned, options), columns)
    if limit == EVERYTHING:
        return features, stream
    rows = sum(table.num_rows for table in stream)
    again = json_lines.line_tables(_local_lines(planned, options), columns)
    chosen = sample(rows, min(limit, rows), options.seed, "fetch")
    return features, row_stream.picked_rows(again, chosen)


def _local_lines(
    planned: DownloadPlan, options: FetchOptions
) -> Iterator[tuple[str, json_lines.Blocks]]:
    for done, file in enumerate(planned.files):
        yield file.path, json_lines.file_blocks(_fetch_one(planned, file.path, done, options))


def _remote_lines(
    planned: DownloadPlan, options: FetchOptions
) -> Iterator[tuple[str, json_lines.Blocks]]:
    patient: Any = {"on_wait": options.on_wait, "retries": options.retries}
    for done, file in enumerate(planned.files):
        if file.path.endswith(json_lines.PACKED):  # can only be unpacked from its start, on disk
            yield file.path, json_lines.file_blocks(_fetch_one(planned, file.path, done, options))
        else:
            yield file.path, client.remote_blocks(planned.listing, file.path, **patient)


def _open_other(
    planned: DownloadPlan, limit: int, options: FetchOptions
) -> tuple["datasets.Features", Iterator[pa.Table]]:
    """Other formats, through ``datasets``: whole files, whatever the limit."""
    files = [
        str(_fetch_one(planned, file.path, done, options))
        for done, file in enumerate(planned.files)
    ]
    dataset = _load_files(planned, files)
    schema, where = dataset.features.arrow_schema, planned.listing.where
    check_columns(schema, planned.source.columns, where)
    stream = _pieces(dataset, schema, where)
    if limit != EVERYTHING and planned.source.streaming:
        stream = row_stream.first_rows(stream, limit)
    elif limit != EVERYTHING and len(dataset) > limit:
        chosen = sample(len(dataset), limit, options.seed, "fetch")
        stream = row_stream.picked_rows(stream, chosen)
    return dataset.features, stream


def _load_files(planned: DownloadPlan, files: list[str]) -> Any:
    import datasets
    from datasets.exceptions import DatasetsError

    try:
        with saved.quiet_datasets():
            return datasets.load_dataset(
                planned.builder,
                data_files={"train": files},
                split="train",
                features=planned.features,
            )
    except (DatasetsError, ValueError, TypeError) as error:  # what its readers raise
        reason = " ".join(str(error.__cause__ or error).split())[:400].rstrip(".")
        raise SourceError(
            f"{planned.listing.where} can not be read as {planned.builder}: {reason}. Pin an "
            "earlier revision in download_data.py"
        ) from error


def _pieces(dataset: Any, schema: pa.Schema, where: str) -> Iterator[pa.Table]:
    for piece in dataset.with_format("arrow").iter(row_stream.PIECE_ROWS):
        yield row_stream.conform(piece, schema, where)


def _features(planned: DownloadPlan, found: pa.Schema) -> "datasets.Features":
    """The card's features where they name the columns that are there, else the files' own."""
    import datasets

    if planned.features is not None and set(planned.features) == set(found.names):
        return planned.features
    return datasets.Features.from_arrow_schema(found)


def _compare_rows(planned: DownloadPlan, rows: int) -> None:
    if rows != planned.stated_rows:
        _LOG.warning(
            "WARNING: the card of %s states %s rows but its files hold %s",
            planned.listing.where,
            f"{planned.stated_rows:,}",
            f"{rows:,}",
        )
