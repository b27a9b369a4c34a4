"""What earlier runs have left that this one will use again, by the keys of what they made.

A key is known only when its stage begins: a normalizer that was edited since makes another. So
what counts is the newest record that agrees in everything that is known now: the rows, the
parameters, and the content digests of what lies before it.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline_lib.chat.mixture import text_digest, used_weights
from pipeline_lib.chat.store import content_digest
from pipeline_lib.corpus.prepare import recorded_run
from pipeline_lib.downloads import saved
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.sizes import GATED_NOTE, Size
from pipeline_lib.errors import PipelineError
from pipeline_lib.machine import folder_bytes
from pipeline_lib.preflight.amounts import SizingParameters
from pipeline_lib.records import FOLDER
from pipeline_lib.storage.stored_folders import Stored, newest
from pipeline_lib.tokenization.tokenizer import load_tokenizer

SHARDS = "shards"
"""The folder below the data folder that holds published shards."""
STORE = "normalized-"
"""Begins the name of a source's stored conversations."""


@dataclass(frozen=True)
class Made:
    """Names of stages that are complete, and the bytes that they and unfinished ones hold."""

    complete: frozenset[str] = frozenset()
    held: Mapping[str, int] = field(default_factory=dict)

    @property
    def cached(self) -> int:
        """Bytes in the cache folder that are used again."""
        return sum(size for name, size in self.held.items() if name != SHARDS)

    def left(self, name: str, expected: int) -> int:
        """Bytes of a stage that are still to be written."""
        return 0 if name in self.complete else max(expected - self.held.get(name, 0), 0)


def find_made(
    found: Sequence[Size], data_dir: Path, run: SizingParameters, options: FetchOptions
) -> Made:
    """What lies below a data folder of the stages of an equal run."""
    cache = data_dir / "cache"
    records = _stores(found, data_dir, run, options)
    shards = Made()
    if _settled(found, records):
        stores = {s.name: records[STORE + s.name] for s in found if s.present}
        details = {name: store.record.details for name, store in stores.items() if store.record}
        fingerprints = {name: found["digests"]["train"] for name, found in details.items()}
        texts = text_digest(fingerprints, used_weights(stores, run.weights), options.seed)
        known = {"vocab_size": run.vocab_size, "texts_fp": texts}
        records |= _one("tokenizer", newest(cache, "tokenizer", known))
        tokenizer = _tokenizer(records.get("tokenizer"))
        if tokenizer is not None:
            records |= _caches(cache, run, texts, content_digest(fingerprints), tokenizer)
            shards = _shards(data_dir / SHARDS, run, options.seed, tokenizer)
    complete = {name for name, record in records.items() if record.complete}
    held = {name: record.size for name, record in records.items()}
    return Made(shards.complete | complete, {**held, **shards.held})


def _stores(
    found: Sequence[Size], data_dir: Path, run: SizingParameters, options: FetchOptions
) -> dict[str, Stored]:
    """The stored conversations of the sources that are on disk."""
    known = {"seed": options.seed, "val_fraction": run.val_fraction, "limit": options.limit}
    records: dict[str, Stored] = {}
    for size in found:
        if size.present:
            rows = {"source": size.name, "rows": saved.find(data_dir / size.name).fingerprint}
            kind = STORE + size.name
            records |= _one(kind, newest(data_dir / "cache", kind, rows | known))
    return records


def _settled(found: Sequence[Size], records: Mapping[str, Stored]) -> bool:
    """Whether the conversations of all sources are there, and no other source is to come."""
    to_come = [s for s in found if not s.present and s.known and s.note != GATED_NOTE]
    there = [records.get(STORE + s.name) for s in found if s.present]
    return bool(there) and not to_come and all(r is not None and r.complete for r in there)


def _caches(
    cache: Path, run: SizingParameters, texts: str, content: str, tokenizer: str
) -> dict[str, Stored]:
    rows = {"raw_fp": content, "max_len": run.max_len, "tok_sha": tokenizer}
    return {
        **_one("pretrain", newest(cache, "pretrain", {"texts_fp": texts, "tok_sha": tokenizer})),
        **_one("sft", newest(cache, "sft", rows)),
        **_one("dpo", newest(cache, "dpo", rows)),
    }


def _tokenizer(record: Stored | None) -> str | None:
    """The digest of a trained tokenizer; a damaged one is reported by the stage that opens it."""
    with contextlib.suppress(PipelineError):
        if record is not None and record.complete:
            return load_tokenizer(record.path).sha256
    return None


def _one(name: str, record: Stored | None) -> dict[str, Stored]:
    return {} if record is None else {name: record}


def _shards(folder: Path, run: SizingParameters, seed: int, tokenizer: str) -> Made:
    """The published or unfinished shards of an equal run; what is damaged does not count."""
    dataset, config = run.corpus or (FOLDER, None)
    wanted = {
        "seed": seed,
        "val_fraction": run.val_fraction,
        "train_tokens": run.train_tokens,
        "dataset": dataset,
        "config": config,
    }
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        target = path.with_name(path.name.removesuffix(".incomplete"))
        with contextlib.suppress(PipelineError):
            recorded = recorded_run(target) or {"recipe": {}}
            same = wanted.items() <= recorded["recipe"].items()
            if same and recorded["tokenizer"]["sha256"] == tokenizer:
                complete = frozenset({SHARDS} if target.exists() else ())
                return Made(complete, {SHARDS: folder_bytes(path)})
    return Made()
