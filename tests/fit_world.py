"""Helpers of the preflight tests: small chat data sets, and a whole run over them."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline_lib.chat.conversation import Result
from pipeline_lib.chat.messages import read_turns
from pipeline_lib.chat.mixture import mix
from pipeline_lib.chat.normalize import normalize
from pipeline_lib.chat.rows import open_rows
from pipeline_lib.chat.turns import tidy
from pipeline_lib.corpus.prepare import PrepareOptions, prepare
from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.downloads.plans import FetchOptions
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.hub.retry import RetryPolicy
from pipeline_lib.preflight.amounts import SizingParameters
from pipeline_lib.preflight.reuse import Held, Reusable
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.token_caches.caches import dpo_cache, pretrain_cache, sft_cache
from pipeline_lib.token_caches.trained_tokenizer import train_tokenizer

QUICK = RetryPolicy(tries=1)
PARAMETERS = SizingParameters(max_len=128, vocab_size=1_024, train_tokens=20_000)
KINDS = ("normalized-chat", "tokenizer", "shards", "pretrain", "sft", "dpo")
ALL_DONE = Reusable(dict.fromkeys(KINDS, Held(0, complete=True)))
MESSAGES = pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))
LETTERS = "eeeettaaooiinnsshhrrddlluucmfwypvbgk"


def words(number: int, count: int) -> str:
    """``count`` words of other letters for each number, in which a token has as many bytes as in
    real text."""
    drawn = hashlib.shake_128(str(number).encode()).digest(8 * count)
    found = (drawn[at : at + 2 + drawn[at] % 6] for at in range(0, len(drawn), 8))
    return " ".join("".join(LETTERS[byte % len(LETTERS)] for byte in word) for word in found)


def chats(count: int, first: int = 0) -> pa.Table:
    """Conversations of two or four turns, and a column that no normalizer reads."""
    rows = [
        {
            "id": hashlib.sha256(str(number).encode()).hexdigest(),
            "messages": [
                {"content": words(4 * number + turn, 6 + 9 * (number % 5)), "role": role}
                for turn, role in enumerate(["user", "assistant"] * (1 + number % 2))
            ],
        }
        for number in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, pa.schema([("id", pa.string()), ("messages", MESSAGES)]))


def documents(count: int) -> pa.Table:
    """A plain-text corpus."""
    return pa.table({"text": [words(-1 - number, 40) for number in range(count)]})


def corpus_of(text: int, documents: int) -> Size:
    """The size of a corpus of which nothing is left to fetch."""
    return Size("corpus", documents, 0, 0, text=text)


def source(**more: Any) -> DatasetSpec:
    """The registry entry of such a data set; ``more`` replaces fields of it."""
    chosen = {"path": "acme/chat", "columns": {"messages": MESSAGES}, "role": "dialogue"} | more
    return DatasetSpec(licence="MIT", citation="none", **chosen)


def options(limit: int = -1) -> FetchOptions:
    """Options that fetch everything or ``limit`` rows, without retries."""
    return FetchOptions(limit, seed=7, retries=QUICK)


def _turns(row: dict[str, Any]) -> Result:
    return tidy(read_turns(row["messages"]))


def run_all(
    sources: Mapping[str, DatasetSpec],
    data_dir: Path,
    parameters: SizingParameters = PARAMETERS,
    corpus: str | None = None,
) -> None:
    """All stages after the download; ``corpus`` is a folder or Hub data set for the shards."""
    cache, seed = CacheOptions(data_dir / "cache"), options().seed
    rows = {name: open_rows(data_dir / name, source) for name, source in sources.items()}
    normalizers = dict.fromkeys(rows, _turns)
    normalized = normalize(
        rows, normalizers, cache, seed=seed, val_fraction=parameters.val_fraction
    )
    mixture = mix(
        normalized.train, parameters.weights, seed=seed, optional=tuple(parameters.weights)
    )
    trained = train_tokenizer(mixture, cache, vocab_size=parameters.vocab_size)
    if corpus is not None:
        recipe = Recipe(
            dataset=corpus,
            config="default" if parameters.corpus else None,
            tokenizer=str(trained.folder),
            train_tokens=parameters.train_tokens,
            seed=seed,
            val_fraction=parameters.val_fraction,
        )
        settings = PrepareOptions(encoder="tokenizers")
        prepare(recipe, data_dir / "shards" / "corpus", resume="auto", options=settings)
    pretrain_cache(cache, mixture, trained.tokenizer)
    sft_cache(cache, mixture.used, trained.tokenizer, max_len=parameters.max_len)
    dpo_cache(cache, mixture.used, trained.tokenizer, max_len=parameters.max_len)
