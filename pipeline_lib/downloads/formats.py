"""The rows of a planned download as a stream of tables, by the format of its files.

Of Parquet every column is kept. JSON Lines state no types, so the registry's columns are read with
the registry's types. All other formats are read by ``datasets``.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline_lib.columns import check_columns
from pipeline_lib.downloads.plans import DownloadPlan, FetchOptions
from pipeline_lib.downloads.saved import quiet_datasets
from pipeline_lib.errors import SourceError
from pipeline_lib.hub import client
from pipeline_lib.selection import sample
from pipeline_lib.shuffling import file_order
from pipeline_lib.sources import json_lines, row_stream

if TYPE_CHECKING:
    import datasets

Tables = Iterator[pa.Table]


def open_tables(plan: DownloadPlan, options: FetchOptions) -> tuple["datasets.Features", Tables]:
    """The features of a data set, and at most ``options.limit`` rows in tables that have them.

    Files are fetched before the first table, but JSON Lines while the tables are read.
    """
    if plan.builder == "parquet":
        return _open_parquet(plan, options)
    return _open_lines(plan, options) if plan.lines else _open_other(plan, options)


def _open_parquet(plan: DownloadPlan, options: FetchOptions) -> tuple["datasets.Features", Tables]:
    names = plan.names
    if options.limited and not plan.spec.streaming:
        names = file_order(names, options.seed)
    paths, rows = _fetch_enough(plan, names, options)
    found = row_stream.parquet_schema(paths, plan.spec.columns)
    features = _features(plan, found)
    more = _fetch_more(plan, names, len(paths), options)
    tables = row_stream.parquet_tables(chain(paths, more), features.arrow_schema)
    return features, _limited(plan, tables, rows, options)


def _fetch_more(
    plan: DownloadPlan, names: list[str], done: int, options: FetchOptions
) -> Iterator[Path]:
    """Under a cap in bytes: further files, fetched only if those that are there end below it.

    Footers tell more bytes than the text has.
    """
    if plan.spec.max_bytes is None or (options.limited and not plan.spec.streaming):
        return
    for place, name in enumerate(names[done:], done):
        yield _fetch_file(plan, name, place, options)


def _fetch_enough(
    plan: DownloadPlan, names: list[str], options: FetchOptions
) -> tuple[list[Path], int]:
    """Fetch files in this order until they hold enough rows or bytes; their paths and rows."""
    paths: list[Path] = []
    rows = size = 0
    for name in names:
        paths.append(_fetch_file(plan, name, len(paths), options))
        more_rows, more_bytes = row_stream.parquet_size(paths[-1], plan.spec.counted)
        rows, size = rows + more_rows, size + more_bytes
        if options.limited and rows >= options.limit:
            break
        if plan.spec.max_bytes is not None and size >= plan.spec.max_bytes:
            break
    return paths, rows


def _fetch_file(plan: DownloadPlan, name: str, done: int, options: FetchOptions) -> Path:
    path = client.fetch_file(plan.listing, name, retries=options.retries)
    if options.on_progress is not None:
        options.on_progress(name, done + 1, len(plan.files))
    return path


def _features(plan: DownloadPlan, found: pa.Schema) -> "datasets.Features":
    """The card's features if they name the columns that are there, else those of the files."""
    import datasets

    if plan.features is not None and set(plan.features) == set(found.names):
        return plan.features
    return datasets.Features.from_arrow_schema(found)


def _limited(plan: DownloadPlan, tables: Tables, rows: int, options: FetchOptions) -> Tables:
    """The first rows of a streaming data set, or a seeded sample of another one."""
    if not options.limited:
        return tables
    if plan.spec.streaming or rows <= options.limit:
        return row_stream.first_rows(tables, options.limit)
    return row_stream.picked_rows(tables, sample(rows, options.limit, options.seed, "fetch"))


def _open_lines(plan: DownloadPlan, options: FetchOptions) -> tuple["datasets.Features", Tables]:
    """With a limit, a streaming data set is read over the network only as far as needed."""
    import datasets

    columns = plan.spec.columns
    features = datasets.Features.from_arrow_schema(pa.schema(list(columns.items())))
    streamed = options.limited and plan.spec.streaming
    tables = json_lines.line_tables(_line_files(plan, options, remote=streamed), columns)
    if streamed or not options.limited:
        return features, _limited(plan, tables, 0, options)
    rows = sum(table.num_rows for table in tables)  # a sample needs it, so all is read twice
    again = json_lines.line_tables(_line_files(plan, options), columns)
    return features, _limited(plan, again, rows, options)


def _line_files(
    plan: DownloadPlan, options: FetchOptions, *, remote: bool = False
) -> Iterator[tuple[str, json_lines.Blocks]]:
    for done, name in enumerate(plan.names):
        if remote and not json_lines.is_packed(name):
            yield name, client.remote_blocks(plan.listing, name, retries=options.retries)
        else:
            yield name, json_lines.file_blocks(_fetch_file(plan, name, done, options))


def _open_other(plan: DownloadPlan, options: FetchOptions) -> tuple["datasets.Features", Tables]:
    """All files are fetched, even with a limit."""
    files = [str(_fetch_file(plan, name, done, options)) for done, name in enumerate(plan.names)]
    dataset, where = _load_files(plan, files), plan.listing.where
    schema = dataset.features.arrow_schema
    check_columns(schema, plan.spec.columns, where)
    pieces = dataset.with_format("arrow").iter(row_stream.PIECE_ROWS)
    tables = (row_stream.conform(piece, schema, where) for piece in pieces)
    return dataset.features, _limited(plan, tables, len(dataset), options)


def _load_files(plan: DownloadPlan, files: list[str]) -> Any:
    import datasets
    from datasets.exceptions import DatasetsError

    try:
        with quiet_datasets():
            return datasets.load_dataset(
                plan.builder, data_files={"train": files}, split="train", features=plan.features
            )
    except (DatasetsError, ValueError, TypeError) as error:  # the readers of ``datasets`` raise it
        reason = " ".join(str(error.__cause__ or error).split())[:400].rstrip(".")
        raise SourceError(
            f"{plan.listing.where} can not be read as {plan.builder}: {reason}. Pin an earlier "
            "revision in download_data.py"
        ) from error
