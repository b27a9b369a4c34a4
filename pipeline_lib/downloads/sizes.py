"""How big a source is, asked before any of it is fetched: metadata only.

What lies on disk is measured. Else the card's own figures count; where it has none, the
footers of the parquet files, read by range requests; for other formats the size of the files
times a known factor. Where nothing can be told the size stays unknown, and says so.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline_lib.downloads import plans, saved
from pipeline_lib.downloads.plans import EVERYTHING, Order, Plan
from pipeline_lib.downloads.registry import Source
from pipeline_lib.errors import DamagedFile, PipelineError
from pipeline_lib.machine import folder_bytes
from pipeline_lib.order import file_order
from pipeline_lib.remote import hub
from pipeline_lib.remote.footers import remote_footer
from pipeline_lib.remote.patience import Gated, NoAccess
from pipeline_lib.sampledata import sample

GATED_NOTE = "(gated -- needs HF_TOKEN)"
SAMPLE_NOTE = "made offline"
_FACTORS = {".jsonl": 1.0, ".json": 1.0, ".gz": 3.5, ".zst": 4.0, ".csv": 1.0, ".arrow": 1.0}


@dataclass(frozen=True)
class Size:
    """What one source costs. Bytes; None is unknown.

    ``network`` is what is fetched and stays in the Hub cache, ``saved`` the copy in the data
    folder, ``extra`` a further copy that formats other than parquet and JSON Lines leave in the
    cache of ``datasets``. ``present`` says that it is on disk already, and costs nothing more.
    """

    name: str
    rows: int | None
    network: int | None
    saved: int | None
    note: str = ""
    extra: int = 0
    present: bool = False

    @property
    def known(self) -> bool:
        """Whether both sizes are known."""
        return self.network is not None and self.saved is not None


def size_on_disk(name: str, folder: Path, limit: int) -> Size | None:
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
    return Size(name, there.rows, 0, there.size, "on disk", present=True)


def size_of_sample(name: str) -> Size:
    """The size of a source of the offline sample that is not made yet."""
    known = sample.SAVED_KILOBYTES.get(name)
    return Size(name, None, 0, None if known is None else known * 1000, SAMPLE_NOTE)


def size_of_corpus(data_dir: Path) -> Size:
    """The size of the sample's corpus, on disk or not made yet."""
    held = folder_bytes(data_dir / sample.CORPUS)
    if held:
        return Size(sample.CORPUS, None, 0, held, "on disk", present=True)
    return size_of_sample(sample.CORPUS)


def size_on_hub(name: str, source: Source, order: Order) -> Size:
    """What fetching a source would cost, at most ``order.limit`` rows of it."""
    try:
        planned = plans.plan(source, order)
    except (Gated, NoAccess):
        return _gated(name, source, order)
    except PipelineError as error:
        return Size(name, None, None, None, " ".join(str(error).split()))
    try:
        rows, size, note = _whole(planned, order)
    except PipelineError as error:
        note = " ".join(str(error).split())
        return Size(name, planned.stated_rows, planned.download_bytes, planned.stated_bytes, note)
    return _scaled(name, planned, rows, size, note, order)


def _whole(planned: Plan, order: Order) -> tuple[int | None, int | None, str]:
    """Rows and Arrow bytes of everything, and how they are known."""
    if planned.stated_rows and planned.stated_bytes:
        return planned.stated_rows, planned.stated_bytes, "from the card"
    if planned.builder == "parquet":
        footers = [
            remote_footer(
                planned.listing, file.path, on_wait=order.on_wait, patience=order.patience
            )
            for file in planned.files
        ]
        rows = sum(footer.rows for footer in footers)
        return rows, sum(footer.arrow_bytes for footer in footers), "from parquet footers"
    factors = {_FACTORS.get(Path(file.path).suffix) for file in planned.files}
    if None in factors or not factors:
        return None, None, "format of unknown density"
    factor = max(factor for factor in factors if factor is not None)
    return None, int(planned.download_bytes * factor), "estimated from file sizes"


def _scaled(
    name: str, planned: Plan, rows: int | None, size: int | None, note: str, order: Order
) -> Size:
    """What a limit in rows or bytes leaves: files are fetched whole, rows are saved exactly."""
    source, network = planned.source, planned.download_bytes
    share = 1.0
    if order.limit != EVERYTHING and rows and source.group is None:
        share = min(order.limit / rows, 1.0)
    if source.max_bytes is not None and size:
        share = min(share, source.max_bytes / size)
    if share < 1.0 and planned.builder == "parquet":
        names = [file.path for file in planned.files]
        if not source.streaming and order.limit != EVERYTHING:
            names = file_order(names, order.seed)
        needed = math.ceil(len(names) * share)
        network = sum(max(planned.listing.file(n).size, 0) for n in names[:needed])
    kept = None if size is None else math.ceil(size * share)
    extra = 0 if planned.builder == "parquet" or planned.lines else size or 0
    return Size(name, math.ceil(rows * share) if rows else None, network, kept, note, extra)


def _gated(name: str, source: Source, order: Order) -> Size:
    """Lists and cards of gated repositories are public: sizes as the card states them."""
    unknown = Size(name, None, None, None, GATED_NOTE)
    try:
        listing = hub.resolve_revision(
            source.path, source.revision, on_wait=order.on_wait, patience=order.patience
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
    share = min(order.limit / rows, 1.0) if order.limit != EVERYTHING and rows else 1.0
    network = int(stated["download_size"])
    return Size(name, math.ceil(rows * share), network, math.ceil(size * share), GATED_NOTE)


def _card_info(card: Any, config: str | None) -> dict[str, Any]:
    """The ``dataset_info`` of a config, which a card gives as one mapping or as a list."""
    stated = card.get("dataset_info")
    entries = [e for e in (stated if isinstance(stated, list) else [stated]) if isinstance(e, dict)]
    named = {str(entry.get("config_name", "default")): entry for entry in entries}
    return named.get(config or "default") or (entries[0] if len(entries) == 1 else {})
