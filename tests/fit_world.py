"""What the tests of the look ahead share: small chat data sets, and a whole run over them."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline_lib.caches.cachesite import CacheSite
from pipeline_lib.caches.chatcaches import dpo_cache, pretrain_cache, sft_cache
from pipeline_lib.caches.tokenizercache import trained_tokenizer
from pipeline_lib.chat import Result
from pipeline_lib.chats.conversations import normalize, open_rows
from pipeline_lib.chats.mixture import mix
from pipeline_lib.chats.turns import read_turns, tidy
from pipeline_lib.downloads.plans import Order
from pipeline_lib.downloads.registry import Source
from pipeline_lib.fit.expected import Run
from pipeline_lib.preparing.preparation import Settings, prepare
from pipeline_lib.recipe import Recipe
from pipeline_lib.remote.patience import Patience

QUICK = Patience(tries=1)
RUN = Run(max_len=128, vocab_size=1_024, train_tokens=20_000)
MESSAGES = pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))
SYLLABLES = [a + b for a in ("ba", "do", "ke", "li") for b in ("mu", "nap", "s", "rete")]


def words(number: int, count: int) -> str:
    """Some hundreds of words that no other number has in this order."""
    drawn = hashlib.shake_128(str(number).encode()).digest(2 * count)
    pairs = zip(drawn[::2], drawn[1::2], strict=True)
    return " ".join(SYLLABLES[a % 16] + SYLLABLES[b % 16] + SYLLABLES[a // 16] for a, b in pairs)


def chats(count: int, first: int = 0) -> pa.Table:
    """Conversations of two or four turns, with a column beside that no normalizer reads."""
    rows = [
        {
            "id": hashlib.sha256(str(number).encode()).hexdigest(),
            "messages": [
                {"content": words(4 * number + turn, 5 + 7 * (number % 5)), "role": role}
                for turn, role in enumerate(["user", "assistant"] * (1 + number % 2))
            ],
        }
        for number in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, pa.schema([("id", pa.string()), ("messages", MESSAGES)]))


def documents(count: int) -> pa.Table:
    """A plain-text corpus."""
    return pa.table({"text": [words(-1 - number, 40) for number in range(count)]})


def source(**more: Any) -> Source:
    """The registry's entry for such a data set."""
    chosen = {"path": "acme/chat", "columns": {"messages": MESSAGES}, "role": "dialogue"} | more
    return Source(licence="MIT", citation="none", **chosen)


def order(limit: int = -1) -> Order:
    """Everything, or a limit, in no time."""
    return Order(limit, seed=7, patience=QUICK)


def _turns(row: dict[str, Any]) -> Result:
    return tidy(read_turns(row["messages"]))


def run_all(
    sources: Mapping[str, Source], data_dir: Path, run: Run = RUN, corpus: str | None = None
) -> None:
    """All stages behind the download; shards from a folder or a Hub data set."""
    site, seed = CacheSite(data_dir / "cache"), order().seed
    rows = {name: open_rows(data_dir / name, source) for name, source in sources.items()}
    normalizers = dict.fromkeys(rows, _turns)
    normalized = normalize(rows, normalizers, site, seed=seed, val_fraction=run.val_fraction)
    mixture = mix(normalized.train, run.weights, seed=seed, optional=tuple(run.weights))
    trained = trained_tokenizer(mixture, site, vocab_size=run.vocab_size)
    if corpus is not None:
        recipe = Recipe(
            dataset=corpus,
            config="default" if run.corpus else None,
            tokenizer=str(trained.folder),
            train_tokens=run.train_tokens,
            seed=seed,
            val_fraction=run.val_fraction,
        )
        settings = Settings(encoder="tokenizers")
        prepare(recipe, data_dir / "shards" / "corpus", resume="auto", settings=settings)
    pretrain_cache(site, mixture, trained.tokenizer)
    sft_cache(site, normalized.train, trained.tokenizer, max_len=run.max_len)
    dpo_cache(site, normalized.train, trained.tokenizer, max_len=run.max_len)
