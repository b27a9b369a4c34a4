"""The normalising stage: rows of saved data sets become checked conversations on disk.

Each source has a folder of its own in the cache, named by a key over its rows, the normalizer's
code, this library's code and the selection. Later stages depend on the digest of what came
out, so an edit that changes nothing in the output destroys nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline_lib import digest, selection
from pipeline_lib.caches.cachekey import Key
from pipeline_lib.caches.cachesite import CacheSite
from pipeline_lib.chat import Pair, Turns
from pipeline_lib.chats.sourcecode import CodeIdentity, code_identity
from pipeline_lib.chats.sourcerows import PickedRows, ReadsRows, Rows, open_rows
from pipeline_lib.chats.sourcestore import Normalizer, Side, SourceReport, SourceStore
from pipeline_lib.chats.turnstore import Conversations
from pipeline_lib.table import Table

__all__ = [
    "CacheSite",
    "Conversations",
    "Normalized",
    "Normalizer",
    "ReadsRows",
    "Rows",
    "SourceReport",
    "normalize",
    "open_rows",
]

STORE_VERSION = 2
"""Raised when the same results of a normalizer are stored otherwise, or on another side."""

_CODE = (
    "chat",
    "selection",
    "chats/turns",
    "chats/utterances",
    "chats/verdicts",
    "chats/trees",
    "chats/sourcerows",
    "chats/sourcestore",
    "chats/turnparts",
)
"""Modules of this library whose code decides what is stored."""


@dataclass(frozen=True)
class Normalized:
    """The conversations of both splits, and a report and a cache folder for each source."""

    train: Conversations
    val: Conversations
    reports: dict[str, SourceReport]
    folders: tuple[Path, ...]

    @property
    def table(self) -> Table:
        """Rows, kept conversations and rejections of each source."""
        names = ("source", "rows", "train", "val", "rejected", "most frequent reason")
        return Table(
            names,
            tuple(
                (
                    name,
                    r.rows,
                    r.train,
                    r.val,
                    r.rejected,
                    max(r.rejects, key=r.rejects.__getitem__),
                )
                if r.rejects
                else (name, r.rows, r.train, r.val, 0, "")
                for name, r in self.reports.items()
            ),
        )

    @property
    def reasons(self) -> Table:
        """Every reason for a rejection and everything noted of a kept row, with their numbers."""
        kinds = (("rejected", "rejects"), ("noted", "notes"), ("messages", "messages"))
        return Table(
            ("source", "what", "why", "rows"),
            tuple(
                (name, label, reason, count)
                for name, report in self.reports.items()
                for label, kind in kinds
                for reason, count in sorted(getattr(report, kind).items())
            ),
        )


def normalize(
    sources: Mapping[str, Rows],
    normalizers: Mapping[str, Normalizer],
    site: CacheSite,
    *,
    seed: int,
    val_fraction: float = 0.05,
    limit: int = -1,
) -> Normalized:
    """Normalise every source, or open what an equal run has stored; goes on where one stopped.

    ``limit`` takes that many rows of each source (paths of a tree source), a seeded sample;
    -1 takes all. The split follows the content of the first user turn (of a document, its text)
    without the white space around it, so that copies which differ in nothing else stay on one
    side. ``ValueError`` if a source has no normalizer; ``SourceError`` if all rows of one are
    rejected.
    """
    missing = [name for name in sources if name not in normalizers]
    if missing:
        raise ValueError(f"no normalizer for {', '.join(missing)}; add one to NORMALIZERS")
    side = _side(seed, val_fraction)
    library = _library_digest()
    stores = []
    for name, rows in sources.items():
        code = code_identity(normalizers[name])
        key = _key(name, rows, code, library, (seed, val_fraction, limit))
        store = SourceStore(site, name, key, code.unresolved)
        if not store.complete:
            picked = PickedRows(name, rows, seed, limit)
            store.fill(picked, normalizers[name], side)
        store.judge()
        stores.append(store)
    return Normalized(
        Conversations([store.stored("train") for store in stores]),
        Conversations([store.stored("val") for store in stores]),
        {store.name: store.report for store in stores},
        tuple(store.folder for store in stores),
    )


def _key(
    name: str, rows: Rows, code: CodeIdentity, library: str, picked: tuple[int, float, int]
) -> Key:
    seed, val_fraction, limit = picked
    return {
        "store_version": STORE_VERSION,
        "source": name,
        "rows": rows.fingerprint,
        "tree": rows.tree,
        "seed": seed,
        "val_fraction": val_fraction,
        "limit": limit,
        "limit_selects": f"seeded sample, version {selection.SELECTION_VERSION}",
        "normalizer": code.sha256,
        "library": library,
    }


def _library_digest() -> str:
    here = Path(__file__).parent.parent
    return digest.of_json({name: digest.sha256_file(here / f"{name}.py") for name in _CODE})


def _side(seed: int, val_fraction: float) -> Side:
    prefix, threshold = selection.identity_prefix(seed), selection.val_threshold(val_fraction)

    def side(conversation: Turns | Pair) -> selection.Split:
        turns = conversation.prompt if isinstance(conversation, Pair) else conversation
        first = next((turn for turn in turns if turn["role"] == "user"), turns[0])
        identity = selection.identity(prefix, first["content"].strip().encode())
        return selection.side(identity, threshold)

    return side
