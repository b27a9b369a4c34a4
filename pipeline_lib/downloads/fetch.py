"""From a registered source to a data set on disk: plan, fetch verified, check, save.

With a limit only what it needs is fetched: for a streaming source the first files in stored
order and of them the first rows, else files in seeded order until they hold enough rows and
of those a seeded sample. A source of message trees is always fetched whole, because a cut
tree is no tree; it is limited where it is read.
"""

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline_lib.downloads import rowstream, saved
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


def _open_other(
    planned: Plan, limit: int, order: Order
) -> tuple["datasets.Features", Iterator[pa.Table]]:
    """Formats other than parquet, through ``datasets``."""
    if limit != EVERYTHING and planned.source.streaming:
        features, stream = _open_streamed(planned)
        return features, rowstream.first_rows(stream, limit)
    files = [
        str(_fetch_one(planned, file.path, done, order)) for done, file in enumerate(planned.files)
    ]
    dataset = _load_files(planned, files, streaming=False)
    schema, where = dataset.features.arrow_schema, planned.listing.where
    check_columns(schema, planned.source.columns, where)
    stream = _pieces(dataset, schema, where)
    if limit != EVERYTHING and len(dataset) > limit:
        chosen = sample(len(dataset), limit, order.seed, "fetch")
        stream = rowstream.picked_rows(stream, chosen)
    return dataset.features, stream


def _open_streamed(planned: Plan) -> tuple["datasets.Features", Iterator[pa.Table]]:
    """Rows over the network as they are asked for; such bytes can not be compared with a hash."""
    import datasets

    where = planned.listing.where
    prefix = f"hf://datasets/{planned.source.path}@{planned.listing.commit}/"
    dataset = _load_files(planned, [prefix + f.path for f in planned.files], streaming=True)
    pieces: Iterator[pa.Table] = iter(dataset.with_format("arrow").iter(rowstream.PIECE_ROWS))
    first = next(pieces, None)
    if first is None:
        raise SourceError(f"{where} has no rows; check its config and splits")
    check_columns(first.schema, planned.source.columns, where)
    features = datasets.Features.from_arrow_schema(first.schema)
    schema = features.arrow_schema
    return features, (
        rowstream.conform(piece, schema, where) for piece in itertools.chain([first], pieces)
    )


def _load_files(planned: Plan, files: list[str], *, streaming: bool) -> Any:
    import datasets

    with saved.quiet_datasets():
        return datasets.load_dataset(
            planned.builder,
            data_files={"train": files},
            split="train",
            features=planned.features,
            streaming=streaming,
        )


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
