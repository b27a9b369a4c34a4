"""The folders of earlier runs that this run will use again.

The whole key of a folder is known only when its stage begins, because an edited normalizer changes
it. Here a folder counts if its key agrees in all that is known now: the rows, the parameters and
the digests of the stages before. Of several such folders the newest counts.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline_lib.chat.mixture import text_digest, used_weights
from pipeline_lib.chat.source_store import KIND as STORE
from pipeline_lib.chat.store import content_digest
from pipeline_lib.corpus.recorded import recorded_run
from pipeline_lib.downloads import saved
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.sizes import GATED_NOTE, Size
from pipeline_lib.errors import PipelineError
from pipeline_lib.machine import folder_bytes
from pipeline_lib.preflight.amounts import SizingParameters
from pipeline_lib.records import FOLDER
from pipeline_lib.storage.stored_folders import Stored, newest
from pipeline_lib.token_caches.build import Cache
from pipeline_lib.token_caches.named_tokenizer import NamedTokenizer
from pipeline_lib.token_caches.row_cache import fitting_kind
from pipeline_lib.token_caches.trained_tokenizer import KIND as TOKENIZER
from pipeline_lib.tokenization.tokenizer import load_tokenizer

SHARDS = "shards"
"""The folder below the data folder that holds published shards."""


class Held(NamedTuple):
    """Bytes in a folder, and whether the folder is complete."""

    bytes: int = 0
    complete: bool = False

    def left(self, expected: int) -> int:
        """Bytes that are still to be written of ``expected`` bytes."""
        return 0 if self.complete else max(expected - self.bytes, 0)


class Reusable(dict[str, Held]):
    """Kind of cache, or ``SHARDS`` -> its folder; a kind that is not there holds nothing."""

    def __missing__(self, kind: str) -> Held:
        return Held()

    @property
    def cached(self) -> int:
        """Bytes in the cache folder."""
        return sum(held.bytes for kind, held in self.items() if kind != SHARDS)


def find_reusable(
    sizes: Sequence[Size], data_dir: Path, parameters: SizingParameters, options: FetchOptions
) -> Reusable:
    """The complete and unfinished folders of an equal run below a data folder."""
    cache, shards, named = data_dir / "cache", dict[str, Held](), parameters.tokenizer
    found = _stores(sizes, data_dir, parameters, options)
    digests = {
        kind.removeprefix(STORE): store.record.details["digests"]["train"]
        for kind, store in found.items()
        if store.record and store.complete
    }
    to_store = {size.name for size in sizes if size.known and size.note != GATED_NOTE}
    if digests and to_store <= digests.keys():
        texts = text_digest(digests, used_weights(digests, parameters.weights), options.seed)
        if named is None:
            found |= _newest(cache, TOKENIZER, vocab_size=parameters.vocab_size, texts_fp=texts)
        sha = named.tokenizer.sha256 if named else _tokenizer_digest(found.get(TOKENIZER))
        found |= _newest(cache, "pretrain", texts_fp=texts, tok_sha=sha)
        weights = used_weights(digests, parameters.weights)
        used = {name: digest for name, digest in digests.items() if weights[name]}
        rows = content_digest(used)
        documents = {"documents": parameters.sft_documents}
        found |= _newest(cache, "sft", raw_fp=rows, tok_sha=sha, **documents)
        pairs = {"pairs": parameters.dpo_pairs}
        found |= _newest(cache, "dpo", raw_fp=rows, tok_sha=sha, **pairs)
        for kind in ("sft", "dpo"):
            found |= _fitting(cache, kind, found.get(kind), parameters.max_len)
        shards = _shards(data_dir / SHARDS, parameters, options.seed, sha)
    held = {kind: Held(f.size, f.complete) for kind, f in found.items()} | shards
    return Reusable(held | ({TOKENIZER: _named(named, cache)} if named else {}))


def _named(tokenizer: NamedTokenizer, cache: Path) -> Held:
    """Nothing is to be trained; a folder of an earlier run is one of the caches in use."""
    place = Path(tokenizer.place).resolve()
    inside = place.is_dir() and place.parent == cache.resolve()
    return Held(folder_bytes(place) if inside else 0, complete=True)


def _stores(
    sizes: Sequence[Size], data_dir: Path, parameters: SizingParameters, options: FetchOptions
) -> dict[str, Stored]:
    """The stored conversations of the sources that are on disk."""
    found: dict[str, Stored] = {}
    known = {"val_fraction": parameters.val_fraction, "seed": options.seed, "limit": options.limit}
    for name in (size.name for size in sizes if size.present):
        rows = saved.find(data_dir / name).fingerprint
        found |= _newest(data_dir / "cache", STORE + name, source=name, rows=rows, **known)
    return found


def _newest(cache: Path, kind: str, **known: str | float) -> dict[str, Stored]:
    """The newest folder of a kind whose key has these components, if there is one."""
    folder = newest(cache, kind, known)
    return {} if folder is None else {kind: folder}


def _fitting(cache: Path, kind: str, rows: Stored | None, max_len: int) -> dict[str, Stored]:
    """The folder of the rows that fit, of a complete cache of rows."""
    if rows is None or rows.record is None or not rows.complete:
        return {}
    fingerprint = Cache(rows.path, rows.record, "").fingerprint
    return _newest(cache, fitting_kind(kind), rows=fingerprint, max_len=max_len)


def _tokenizer_digest(trained: Stored | None) -> str:
    """Empty without a complete tokenizer; the stage that opens a damaged one reports it."""
    with contextlib.suppress(PipelineError):
        if trained is not None and trained.complete:
            return load_tokenizer(trained.path).sha256
    return ""


def _shards(
    folder: Path, parameters: SizingParameters, seed: int, tokenizer: str
) -> dict[str, Held]:
    """The published or unfinished shards of an equal run; a damaged folder does not count."""
    dataset, config = parameters.corpus or (FOLDER, None)
    wanted = {"dataset": dataset, "config": config, "seed": seed, "tokenizer": tokenizer}
    wanted |= {name: getattr(parameters, name) for name in ("val_fraction", "train_tokens")}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        target = path.with_name(path.name.removesuffix(".incomplete"))
        with contextlib.suppress(PipelineError):
            run = recorded_run(target)
            found = {**run.recipe, "tokenizer": run.tokenizer["sha256"]} if run else {}
            if wanted.items() <= found.items():
                return {SHARDS: Held(folder_bytes(path), target.exists())}
    return {}
