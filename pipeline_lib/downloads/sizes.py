"""How big a source is, asked before any of it is fetched: metadata only.

What lies on disk is measured. Else the card's own figures count; where it has none, the
footers of the parquet files, read by range requests; for other formats the size of the files
times a known factor. Where nothing can be told the size stays unknown, and says so. How much of
a source its normalizer reads is told by one footer.
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from pipeline_lib.columns import Columns, is_read, read_bytes
from pipeline_lib.downloads import plans, saved
from pipeline_lib.downloads.plans import EVERYTHING, DownloadPlan, FetchOptions
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.errors import DamagedFile, PipelineError
from pipeline_lib.hub import client
from pipeline_lib.hub.footers import RemoteFooter, remote_footer
from pipeline_lib.hub.retry import Gated, NoAccess
from pipeline_lib.preflight.ratios import CONVERSATION_BYTES
from pipeline_lib.sampledata import make
from pipeline_lib.shuffling import file_order

GATED_NOTE = "(gated -- needs HF_TOKEN)"
SAMPLE_NOTE = "made offline"
_FACTORS = {
    ".jsonl": 1.0,
    ".ndjson": 1.0,
    ".json": 1.0,
    ".gz": 3.5,
    ".zst": 4.0,
    ".csv": 1.0,
    ".arrow": 1.0,
}


@dataclass(frozen=True)
class Size:
    """What one source costs. Bytes; None is unknown.

    ``network`` is what is fetched; it stays in the Hub cache unless the source is
    ``streamed``. ``saved`` is the copy in the data folder, ``extra`` a further copy that
    formats other than parquet and JSON Lines leave in the cache of ``datasets``, ``text`` the
    part of the copy that is read later. ``present`` says that it is on disk already, and costs
    nothing more.
    """

    name: str
    rows: int | None
    network: int | None
    saved: int | None
    note: str = ""
    extra: int = 0
    present: bool = False
    text: int | None = None
    streamed: bool = False

    @property
    def known(self) -> bool:
        """Whether both sizes are known."""
        return self.network is not None and self.saved is not None


def size_on_disk(name: str, folder: Path, limit: int, columns: Columns) -> Size | None:
    """The size of what is there; None if nothing is, or only a smaller sample than asked for."""
    try:
        there = saved.find(folder)
    except saved.NotSaved:
        return None
    except DamagedFile as error:
        return Size(name, None, None, None, f"damaged: {error}")
    held = int(there.origin.get("limit", EVERYTHING))
    if held != EVERYTHING and not 0 < limit <= held:
        return None
    text = int(there.size * _share_on_disk(folder, columns))
    return Size(name, there.rows, 0, there.size, "on disk", present=True, text=text)


def size_of_sample(name: str) -> Size:
    """The size of a source of the offline sample that is not made yet."""
    known, rows = make.SAVED_KILOBYTES.get(name), make.stated_rows(name)
    return Size(name, rows, 0, None if known is None else known * 1000, SAMPLE_NOTE)


def size_on_hub(name: str, source: DatasetSpec, options: FetchOptions) -> Size:
    """What fetching a source would cost, at most ``options.limit`` rows of it."""
    try:
        planned = plans.plan_download(source, options)
    except (Gated, NoAccess):
        return _gated(name, source, options)
    except PipelineError as error:
        return Size(name, None, None, None, " ".join(str(error).split()))
    try:
        whole = _whole(planned, options)
    except PipelineError as error:
        note = " ".join(str(error).split())
        return Size(name, planned.stated_rows, planned.download_bytes, planned.stated_bytes, note)
    return _scaled(name, planned, whole, options)


class _Whole(NamedTuple):
    """All of a source: rows, bytes in Arrow, the share that is read, and how this is known."""

    rows: int | None
    size: int | None
    share: float | None
    note: str


def _whole(planned: DownloadPlan, options: FetchOptions) -> _Whole:
    if planned.stated_rows and planned.stated_bytes:
        share = None
        if planned.builder == "parquet":  # a size that is stated does not hang on a footer
            with contextlib.suppress(PipelineError):
                share = _share_read(_footers(planned, options, 1), planned.source.columns)
        return _Whole(planned.stated_rows, planned.stated_bytes, share, "from the card")
    if planned.builder == "parquet":
        footers = _footers(planned, options, len(planned.files))
        rows, size = (sum(f.rows for f in footers), sum(f.arrow_bytes for f in footers))
        return _Whole(
            rows, size, _share_read(footers, planned.source.columns), "from parquet footers"
        )
    factors = {_FACTORS.get(Path(file.path).suffix) for file in planned.files}
    if None in factors or not factors:
        return _Whole(None, None, None, "format of unknown density")
    factor = max(factor for factor in factors if factor is not None)
    share = 1.0 if planned.lines else None  # of lines nothing else is saved
    return _Whole(None, int(planned.download_bytes * factor), share, "estimated from file sizes")


def _footers(planned: DownloadPlan, options: FetchOptions, count: int) -> list[RemoteFooter]:
    return [
        remote_footer(planned.listing, file.path, on_wait=options.on_wait, retries=options.retries)
        for file in planned.files[:count]
    ]


def _share_read(footers: Sequence[RemoteFooter], columns: Columns) -> float | None:
    leaves = [leaf for footer in footers for leaf in footer.leaves.items()]
    total = sum(size for _, size in leaves)
    return sum(size for path, size in leaves if is_read(path, columns)) / total if total else None


def _share_on_disk(folder: Path, columns: Columns) -> float:
    """The share of the wanted columns in the first file of a saved copy, which is mapped."""
    with pa.memory_map(str(min(folder.glob("*.arrow")))) as file:
        table = pa.ipc.open_stream(file).read_all()
        wanted = ((table.column(n), kind) for n, kind in columns.items() if n in table.column_names)
        read = sum(read_bytes(chunk, kind) for column, kind in wanted for chunk in column.chunks)
        return read / max(int(table.nbytes), 1)


def _scaled(name: str, planned: DownloadPlan, whole: _Whole, options: FetchOptions) -> Size:
    """What a limit in rows or bytes leaves: files are fetched whole, rows are saved exactly."""
    source, (rows, size, text_share, note) = planned.source, whole
    share = _share_kept(source, rows, size, options.limit)
    limited, parquet = options.limit != EVERYTHING, planned.builder == "parquet"
    names = [file.path for file in planned.files]
    if share < 1.0 and parquet:
        if not source.streaming and limited:
            names = file_order(names, options.seed)
        names = names[: math.ceil(len(names) * share)]
    streamed = limited and source.streaming and planned.streamable
    network = to_fetch(planned.listing, names)
    if streamed:
        network = math.ceil(network * share)
    kept = None if size is None else math.ceil(size * share)
    return Size(
        name,
        math.ceil(rows * share) if rows else None,
        network,
        kept,
        note,
        extra=0 if parquet or planned.lines else size or 0,
        text=None if kept is None or text_share is None else math.ceil(kept * text_share),
        streamed=streamed,
    )


def _share_kept(source: DatasetSpec, rows: int | None, size: int | None, limit: int) -> float:
    """The share of a source's rows that is saved."""
    share = 1.0
    rows = rows or (None if size is None else max(size // CONVERSATION_BYTES, 1))
    if limit != EVERYTHING and rows and source.group is None:
        share = min(limit / rows, 1.0)
    if source.max_bytes is not None and size:
        share = min(share, source.max_bytes / size)
    return share


def to_fetch(listing: client.RepoListing, names: Sequence[str]) -> int:
    """Bytes of the files that the Hub cache does not hold yet."""
    return sum(max(listing.file(n).size, 0) for n in names if not client.is_cached(listing, n))


def _gated(name: str, source: DatasetSpec, options: FetchOptions) -> Size:
    """Lists and cards of gated repositories are public: sizes as the card states them."""
    unknown = Size(name, None, None, None, GATED_NOTE)
    try:
        listing = client.resolve_revision(
            source.path, source.revision, on_wait=options.on_wait, retries=options.retries
        )
    except PipelineError:
        return unknown
    stated = _card_info(listing.card, source.config)
    splits = {str(s.get("name")): s for s in stated.get("splits") or () if isinstance(s, dict)}
    wanted = [splits.get(split) for split in source.splits]
    if None in wanted or not isinstance(stated.get("download_size"), int):
        return unknown
    listed = [split for split in wanted if split is not None]
    rows = sum(int(split.get("num_examples") or 0) for split in listed)
    size = sum(int(split.get("num_bytes") or 0) for split in listed)
    share = min(options.limit / rows, 1.0) if options.limit != EVERYTHING and rows else 1.0
    network = int(stated["download_size"])
    return Size(name, math.ceil(rows * share), network, math.ceil(size * share), GATED_NOTE)


def _card_info(card: Any, config: str | None) -> dict[str, Any]:
    """The ``dataset_info`` of a config, which a card gives as one mapping or as a list."""
    stated = card.get("dataset_info")
    entries = [e for e in (stated if isinstance(stated, list) else [stated]) if isinstance(e, dict)]
    named = {str(entry.get("config_name", "default")): entry for entry in entries}
    return named.get(config or "default") or (entries[0] if len(entries) == 1 else {})
