"""From a registered source to a data set on disk: plan, fetch verified, check, save.

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

from pipeline_lib.downloads import jsonlines, rowstream, saved
from pipeline_lib.downloads.plans import EVERYTHING, Order, Plan, origin, plan
from pipeline_lib.downloads.registry import Source, check_columns
from pipeline_lib.errors import SourceError
from pipeline_lib.order import file_order
from pipeline_lib.remote import hub
from pipeline_lib.selection import sample

if TYPE_CHECKING:
    import datasets

_LOG = logging.getLogger(__name__)


def fetch(name: str, source: Source, data_dir: Path, order: Order | None = None) -> saved.Saved:
    """Fetch a source and save it as ``data_dir/name``; what is there is replaced at the end.

    ``PipelineError`` subclasses say what went wrong; then nothing on disk has changed.
    """
    order = order or Order()
    planned = plan(source, order)
    limit = EVERYTHING if source.group else order.limit
    features, stream = _open(planned, limit, order)
    if source.max_bytes is not None:
        stream = rowstream.first_bytes(stream, source.max_bytes)
    folder = data_dir / name
    done = saved.save(
        folder,
        stream,
        features,
        columns=source.columns,
        origin=origin(planned, limit, order.seed),
        replace=folder.exists(),
    )
    if limit == EVERYTHING and source.max_bytes is None and planned.stated_rows:
        _compare_rows(planned, done.rows)
    return done


def _open(
    planned: Plan, limit: int, order: Order
) -> tuple["datasets.Features", Iterator[pa.Table]]:
    """The features of a source and its rows as a stream of tables that have them."""
    if planned.lines:
        return _open_lines(planned, limit, order)
    if planned.builder != "parquet":
        return _open_other(planned, limit, order)
    source, names = planned.source, [file.path for file in planned.files]
    sampled = limit != EVERYTHING and not source.streaming
    if sampled:
        names = file_order(names, order.seed)
    paths, rows = _fetch_parquet(planned, names, limit, order)
    found = rowstream.parquet_schema(paths, source.columns)
    features = _features(planned, found)
    stream = rowstream.parquet_tables(paths, features.arrow_schema)
    if sampled and rows > limit:
        stream = rowstream.picked_rows(stream, sample(rows, limit, order.seed, "fetch"))
    elif limit != EVERYTHING:
        stream = rowstream.first_rows(stream, limit)
    return features, stream


def _fetch_parquet(
    planned: Plan, names: list[str], limit: int, order: Order
) -> tuple[list[Path], int]:
    """Files in the given order until they hold enough rows or bytes; and the rows they hold."""
    paths: list[Path] = []
    rows = size = 0
    for name in names:
        paths.append(_fetch_one(planned, name, len(paths), order))
        more_rows, more_bytes = rowstream.parquet_size(paths[-1])
        rows, size = rows + more_rows, size + more_bytes
        if limit != EVERYTHING and rows >= limit:
            break
        if planned.source.max_bytes is not None and size >= planned.source.max_bytes:
            break
    return paths, rows


def _fetch_one(planned: Plan, name: str, done: int, order: Order) -> Path:
    path = hub.fetch_file(planned.listing, name, on_wait=order.on_wait, patience=order.patience)
    if order.on_progress is not None:
        order.on_progress(name, done + 1, len(planned.files))
    return path


def _open_lines(
    planned: Plan, limit: int, order: Order
) -> tuple["datasets.Features", Iterator[pa.Table]]:
    """JSON Lines: the columns of the registry; over the network no further than a limit needs."""
    import datasets

    columns = planned.source.columns
    features = datasets.Features.from_arrow_schema(pa.schema(list(columns.items())))
    if limit != EVERYTHING and planned.source.streaming:
        stream = jsonlines.line_tables(_remote_lines(planned, order), columns)
        return features, rowstream.first_rows(stream, limit)
    stream = jsonlines.line_tables(_local_lines(planned, order), columns)
    if limit == EVERYTHING:
        return features, stream
    rows = sum(table.num_rows for table in stream)
    again = jsonlines.line_tables(_local_lines(planned, order), columns)
    chosen = sample(rows, min(limit, rows), order.seed, "fetch")
    return features, rowstream.picked_rows(again, chosen)


def _local_lines(planned: Plan, order: Order) -> Iterator[tuple[str, jsonlines.Blocks]]:
    for done, file in enumerate(planned.files):
        yield file.path, jsonlines.file_blocks(_fetch_one(planned, file.path, done, order))


def _remote_lines(planned: Plan, order: Order) -> Iterator[tuple[str, jsonlines.Blocks]]:
    options: Any = {"on_wait": order.on_wait, "patience": order.patience}
    for done, file in enumerate(planned.files):
        if file.path.endswith(jsonlines.PACKED):  # can only be unpacked from its start, on disk
            yield file.path, jsonlines.file_blocks(_fetch_one(planned, file.path, done, order))
        else:
            yield file.path, hub.remote_blocks(planned.listing, file.path, **options)


def _open_other(
    planned: Plan, limit: int, order: Order
) -> tuple["datasets.Features", Iterator[pa.Table]]:
    """Other formats, through ``datasets``: whole files, whatever the limit."""
    files = [
        str(_fetch_one(planned, file.path, done, order)) for done, file in enumerate(planned.files)
    ]
    dataset = _load_files(planned, files)
    schema, where = dataset.features.arrow_schema, planned.listing.where
    check_columns(schema, planned.source.columns, where)
    stream = _pieces(dataset, schema, where)
    if limit != EVERYTHING and planned.source.streaming:
        stream = rowstream.first_rows(stream, limit)
    elif limit != EVERYTHING and len(dataset) > limit:
        chosen = sample(len(dataset), limit, order.seed, "fetch")
        stream = rowstream.picked_rows(stream, chosen)
    return dataset.features, stream


def _load_files(planned: Plan, files: list[str]) -> Any:
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
    for piece in dataset.with_format("arrow").iter(rowstream.PIECE_ROWS):
        yield rowstream.conform(piece, schema, where)


def _features(planned: Plan, found: pa.Schema) -> "datasets.Features":
    """The card's features where they name the columns that are there, else the files' own."""
    import datasets

    if planned.features is not None and set(planned.features) == set(found.names):
        return planned.features
    return datasets.Features.from_arrow_schema(found)


def _compare_rows(planned: Plan, rows: int) -> None:
    if rows != planned.stated_rows:
        _LOG.warning(
            "WARNING: the card of %s states %s rows but its files hold %s",
            planned.listing.where,
            f"{planned.stated_rows:,}",
            f"{rows:,}",
        )
