"""The size of a data set, asked for before any of it is fetched: metadata only.

A copy on disk is measured. Else the figures of the card count; without them the footers of the
Parquet files, read by range requests; for other formats the size of the files times a known
factor. A size that nothing tells is unknown. A footer also tells the share of the columns that a
normalizer reads.
"""

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pipeline_lib.columns import Columns, is_read, read_bytes
from pipeline_lib.downloads import saved
from pipeline_lib.downloads.plans import DownloadPlan, FetchOptions, holds_enough, plan_download
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.errors import DamagedFile, PipelineError
from pipeline_lib.hub import client
from pipeline_lib.hub.card_text import Card
from pipeline_lib.hub.footers import RemoteFooter, remote_footer
from pipeline_lib.hub.refusals import Gated, NoAccess
from pipeline_lib.shuffling import file_order

CONVERSATION_BYTES = 3_000
"""Of a stored conversation, if nothing tells the number of rows: between soda and ultrachat."""
GATED_NOTE = "(gated -- needs HF_TOKEN)"
_FACTORS = {
    ".jsonl": 1.0,
    ".ndjson": 1.0,
    ".json": 1.0,
    ".gz": 3.5,
    ".zst": 4.0,
    ".csv": 1.0,
    ".arrow": 1.0,
}
"""Arrow bytes for each byte of a file."""


@dataclass(frozen=True)
class Size:
    """The cost of one data set, in rows and bytes; None is unknown.

    - ``network``: bytes to fetch. They stay in the Hub cache, unless the rows are ``streamed``.
    - ``saved``: bytes of the copy in the data folder; ``text``: the part of it that is read later.
    - ``extra``: bytes of a further copy in the cache of ``datasets``, for formats other than
      Parquet and JSON Lines.
    - ``present``: whether the copy is on disk already, so that it costs nothing more.
    - ``note``: how the size is known, or why it is not.
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
    """The size of the saved copy; None if there is none that holds ``limit`` rows."""
    try:
        there = saved.find(folder)
    except saved.NotSaved:
        return None
    except DamagedFile as error:
        return Size(name, None, None, None, f"damaged: {error}")
    if not holds_enough(there, limit):
        return None
    text = int(there.size * _share_on_disk(folder, columns))
    return Size(name, there.rows, 0, there.size, "on disk", present=True, text=text)


def size_on_hub(name: str, spec: DatasetSpec, options: FetchOptions) -> Size:
    """The cost of fetching at most ``options.limit`` rows of a data set."""
    try:
        plan = plan_download(spec, options)
    except (Gated, NoAccess):
        return _gated(name, spec, options)
    except PipelineError as error:
        return Size(name, None, None, None, _one_line(error))
    try:
        whole = _whole(plan, options)
    except PipelineError as error:
        return Size(
            name, plan.stated_rows, plan.download_bytes, plan.stated_bytes, _one_line(error)
        )
    return _scaled(name, plan, whole, options)


def to_fetch(listing: client.RepoListing, names: Iterable[str]) -> int:
    """Bytes of the files that the Hub cache does not hold yet."""
    return sum(max(listing.file(n).size, 0) for n in names if not client.is_cached(listing, n))


class _Whole(NamedTuple):
    """All of a data set: rows, Arrow bytes, the share that is read, how this is known.

    ``counted``: the share that a cap in bytes counts.
    """

    rows: int | None
    size: int | None
    share: float | None
    note: str
    counted: float | None = None


def _whole(plan: DownloadPlan, options: FetchOptions) -> _Whole:
    is_parquet = plan.builder == "parquet"
    if plan.stated_rows and plan.stated_bytes:
        whole = _Whole(plan.stated_rows, plan.stated_bytes, None, "from the card")
        if is_parquet:  # the stated size is good without the share, so a footer may be unreadable
            with contextlib.suppress(PipelineError):
                whole = _with_shares(whole, _footers(plan, options, 1), plan.spec)
        return whole
    if is_parquet:
        footers = _footers(plan, options, len(plan.files))
        rows, size = sum(f.rows for f in footers), sum(f.arrow_bytes for f in footers)
        return _with_shares(_Whole(rows, size, None, "from parquet footers"), footers, plan.spec)
    factors = [_FACTORS.get(Path(name).suffix, 0.0) for name in plan.names]
    if not all(factors) or not factors:
        return _Whole(None, None, None, "format of unknown density")
    share = 1.0 if plan.lines else None  # from JSON Lines only the read columns are saved
    size = int(plan.download_bytes * max(factors))
    return _Whole(None, size, share, "estimated from file sizes")


def _footers(plan: DownloadPlan, options: FetchOptions, count: int) -> list[RemoteFooter]:
    names = plan.names[:count]
    return [remote_footer(plan.listing, name, retries=options.retries) for name in names]


def _with_shares(whole: _Whole, footers: Sequence[RemoteFooter], spec: DatasetSpec) -> _Whole:
    read, counted = (_share_read(footers, columns) for columns in (spec.columns, spec.counted))
    return whole._replace(share=read, counted=counted)


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


def _scaled(name: str, plan: DownloadPlan, whole: _Whole, options: FetchOptions) -> Size:
    """The cost under a limit in rows or bytes: files are fetched whole, rows are saved exactly."""
    share = _share_kept(plan.spec, whole, options)
    is_parquet = plan.builder == "parquet"
    names = plan.names
    if share < 1.0 and is_parquet:
        if options.limited and not plan.spec.streaming:
            names = file_order(names, options.seed)
        names = names[: math.ceil(len(names) * share)]
    streamed = options.limited and plan.spec.streaming and plan.streamable
    network = to_fetch(plan.listing, names)
    kept = None if whole.size is None else math.ceil(whole.size * share)
    return Size(
        name,
        math.ceil(whole.rows * share) if whole.rows else None,
        math.ceil(network * share) if streamed else network,
        kept,
        whole.note,
        extra=0 if is_parquet or plan.lines else whole.size or 0,
        text=None if kept is None or whole.share is None else math.ceil(kept * whole.share),
        streamed=streamed,
    )


def _share_kept(spec: DatasetSpec, whole: _Whole, options: FetchOptions) -> float:
    """The share of all rows that is saved."""
    share, size = 1.0, whole.size
    rows = whole.rows or (None if size is None else max(size // CONVERSATION_BYTES, 1))
    if options.limited and rows and spec.group is None:
        share = min(options.limit / rows, 1.0)
    if spec.max_bytes is not None and size:
        share = min(share, spec.max_bytes / (size * (whole.counted or 1.0)))
    return share


def _gated(name: str, spec: DatasetSpec, options: FetchOptions) -> Size:
    """The size that the card states: cards of gated repositories are public."""
    unknown = Size(name, None, None, None, GATED_NOTE)
    try:
        listing = client.resolve_revision(spec.path, spec.revision, retries=options.retries)
    except PipelineError:
        return unknown
    stated = _stated(listing.card, spec.config)
    splits = {str(s.get("name")): s for s in stated.get("splits") or () if isinstance(s, dict)}
    if not splits.keys() >= {*spec.splits} or not isinstance(stated.get("download_size"), int):
        return unknown
    wanted = [splits[split] for split in spec.splits]
    rows = sum(int(split.get("num_examples") or 0) for split in wanted)
    size = sum(int(split.get("num_bytes") or 0) for split in wanted)
    share = min(options.limit / rows, 1.0) if options.limited and rows else 1.0
    network = int(stated["download_size"])
    return Size(name, math.ceil(rows * share), network, math.ceil(size * share), GATED_NOTE)


def _stated(card: Card, config: str | None) -> Card:
    """The ``dataset_info`` of a config; a card gives it as one mapping or as a list."""
    stated = card.get("dataset_info")
    entries = [e for e in (stated if isinstance(stated, list) else [stated]) if isinstance(e, dict)]
    named = {str(entry.get("config_name", "default")): entry for entry in entries}
    return named.get(config or "default") or (entries[0] if len(entries) == 1 else {})


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
