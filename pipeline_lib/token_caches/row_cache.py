"""A cache of whole rows, and those of its rows that fit one width.

The second is a small cache of its own, made from the records alone: another ``max_len`` encodes
nothing.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest
from pipeline_lib.corpus.mapped import MappedFile
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.keyed_folder import Key
from pipeline_lib.templates.encoding import Places
from pipeline_lib.token_caches.build import Cache, CacheRows, CacheSpec, open_or_build
from pipeline_lib.token_caches.counts import Counts, added, by_source
from pipeline_lib.token_caches.fitted import OverLength
from pipeline_lib.token_caches.fitting import fitting
from pipeline_lib.token_caches.layout import FITTING, FileLayout, Kind, row_files

FITTING_VERSION = 1
"""Increased when other rows fit."""
KEPT, REAL, MADE = "kept", "real pairs", "made pairs"
_RECORDS = 1 << 20  # in one write batch

SourceNumbers = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""The index of the source of conversations, by their numbers in the order of the cache."""


def fitting_kind(kind: str) -> str:
    """The kind of the cache of those rows that fit."""
    return f"fit-{kind}"


class WholeRows:
    """The files of a cache of whole rows, mapped for reading."""

    def __init__(self, cache: Cache, kind: Kind) -> None:
        files = row_files(kind)
        self.sides = files.sides
        self.ids, self.mask, self.records = (_mapped(cache, file) for file in files.all)

    def __len__(self) -> int:
        return self.records.shape[0]

    def bounds(self, records: NDArray[np.integer]) -> tuple[Places, Places]:
        """Where the rows of some records begin and end, in tokens: int64 ``[records, sides]``."""
        ends = self.records.array["end"]
        stops = ends[records].astype(np.int64)
        before = np.where(records > 0, ends[np.maximum(records, 1) - 1, -1], 0)
        return np.concatenate([before[:, None], stops[:, :-1]], axis=1), stops


def _mapped(cache: Cache, file: FileLayout) -> MappedFile:
    items = cache.size(file.name) // file.item_bytes
    return MappedFile(cache.path(file.name), file.dtype, (items,))


@dataclass(frozen=True)
class RowCache:
    """A complete cache of whole rows, and the cache of the numbers of those that fit."""

    whole: Cache
    fitting: Cache
    kind: Kind

    @property
    def counts(self) -> Counts:
        """The counts of both, for each source."""
        return added(self.whole.counts, self.fitting.counts)

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 over the content of all files."""
        return digest.of_json([self.whole.fingerprint, self.fitting.fingerprint])

    @property
    def explanation(self) -> str:
        """Why the whole rows were used or built."""
        return self.whole.explanation

    @cached_property
    def rows(self) -> WholeRows:
        """The whole rows."""
        return WholeRows(self.whole, self.kind)

    @cached_property
    def chosen(self) -> MappedFile:
        """The numbers of the records that fit (uint32)."""
        return _mapped(self.fitting, FITTING)


def fit_rows(
    options: CacheOptions,
    whole: Cache,
    kind: Kind,
    names: list[str],
    source_numbers: SourceNumbers,
    max_len: int,
    rule: OverLength,
) -> RowCache:
    """The rows of a complete cache that fit ``max_len``; ``names``: of the sources."""
    rows = WholeRows(whole, kind)
    encode = _Fitter(rows, names, source_numbers, max_len, rule)
    key: Key = {
        "kind": kind,
        "fitting_version": FITTING_VERSION,
        "rows": whole.fingerprint,
        "max_len": max_len,
        "over_length": rule,
    }
    quiet = dataclasses.replace(options, on_progress=None)
    spec = CacheSpec(
        fitting_kind(kind), key, (FITTING.name,), len(rows), _RECORDS, encode, _nothing_to_switch
    )
    return RowCache(whole, open_or_build(quiet, spec), kind)


def _nothing_to_switch() -> None:
    """Nothing is encoded here."""


@dataclass(frozen=True)
class _Fitter:
    """Encodes a cache of the rows that fit."""

    rows: WholeRows
    names: list[str]
    source_numbers: SourceNumbers
    max_len: int
    rule: OverLength

    def __call__(self, start: int, stop: int, held: Mapping[str, int]) -> CacheRows:
        _ = held
        numbers = np.arange(start, stop)
        records = self.rows.records.array[start:stop]
        begins, ends = self.rows.bounds(numbers)
        found = fitting(records, ends - begins, self.max_len, self.rule)
        kept = found.kept
        sizes = np.minimum(ends - begins, self.max_len) * kept[:, None]
        amounts: dict[str, NDArray[np.generic]] = {**found.flags, KEPT: kept}
        if self.rows.sides == 2:
            amounts |= {REAL: kept & records["real"], MADE: kept & ~records["real"]}
        amounts["tokens"] = sizes.sum(axis=1)
        amounts["trained"] = self._trained(records, begins, ends - begins) * kept
        source = self.source_numbers(records["conversation"].astype(np.int64))
        return CacheRows(
            {FITTING.name: numbers[kept].astype(np.uint32)},
            by_source(self.names, source, amounts),
        )

    def _trained(self, records: NDArray[np.void], begins: Places, sizes: Places) -> Places:
        """Tokens with loss of each record, of a cut row those before the cut."""
        trained = records["trained"].astype(np.int64)
        if self.rule == "truncate_right":
            mask, cut = self.rows.mask.array, sizes > self.max_len
            starts = begins[cut].tolist()
            trained[cut] = [np.count_nonzero(mask[at : at + self.max_len]) for at in starts]
        return trained.sum(axis=1)  # type: ignore[no-any-return]
