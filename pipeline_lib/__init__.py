"""Deterministic, resumable preparation of language-model training data.

This module offers everything a user needs, and ``pipeline_lib.normalizers`` the helpers of
``_norm_<name>`` cells. Names are imported when they are first used: ``import pipeline_lib`` loads
no library.

The rooms, from the top down. A room imports only from rooms below it and from the ground; inside a
room, and in the ground, no two modules import each other.

    prepare_data    the command line of path A
    training        datasets, batch order, loader: the view of a training loop; torch lives here
    preflight       will it fit: amounts, disk, memory, results that are there already
    token_caches    token rows and streams on disk, and the trained tokenizer
    corpus          path A: recipe, lanes, shards, checkpoint, publication, verification
    normalizers     the helpers of ``_norm_<name>`` cells
    chat            path B: turns, normalising, stored conversations, mixture
    sampledata      the offline sample
    downloads       data sets: registry, plans, fetching, saving, sizes
    templates       chat templates: turns to token ids, and what a model must generate
    tracing         Jinja templates, rendered so that each character knows its origin
    sources         readers of Parquet and JSON Lines, in a folder or on the Hub
    tokenization    tokenizers, encoders and the proof that they agree, BPE training
    hub             the Hugging Face Hub: the network
    storage         files that survive a crash: the only writer
    ground          errors records digest columns selection shuffling signals machine engines
                    progress table
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pipeline_lib.chat.missing import check_choice
    from pipeline_lib.chat.mixture import Mixture, mix
    from pipeline_lib.chat.normalize import Normalized, normalize
    from pipeline_lib.chat.opened import OpenedSources, open_sources
    from pipeline_lib.chat.rows import SourceRows, open_rows
    from pipeline_lib.chat.store import Conversations
    from pipeline_lib.corpus.options import PrepareOptions
    from pipeline_lib.corpus.prepare import prepare
    from pipeline_lib.corpus.recipe import Recipe
    from pipeline_lib.corpus.reproduction import reproduce
    from pipeline_lib.corpus.verify import verify
    from pipeline_lib.downloads.plans import FetchOptions
    from pipeline_lib.downloads.registry import DatasetSpec, choose_datasets
    from pipeline_lib.errors import PipelineError
    from pipeline_lib.hub.retry import RetryPolicy
    from pipeline_lib.preflight.amounts import SizingParameters
    from pipeline_lib.preflight.run import run_preflight
    from pipeline_lib.progress import ProgressBars
    from pipeline_lib.storage.cache_options import CacheOptions
    from pipeline_lib.storage.stored_folders import prune, stored_caches
    from pipeline_lib.templates.chat_format import chat_format
    from pipeline_lib.templates.chatml import render
    from pipeline_lib.token_caches.named_tokenizer import named_tokenizer
    from pipeline_lib.token_caches.trained_tokenizer import train_tokenizer
    from pipeline_lib.tokenization.bpe_training import check_vocab_size
    from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer
    from pipeline_lib.training.batch_order import BatchOrder
    from pipeline_lib.training.chat_datasets import DPODataset, PretrainDataset, SFTDataset
    from pipeline_lib.training.loader import loader
    from pipeline_lib.training.sharded import ShardedTokenDataset

_PLACES = {
    "chat.missing": ("check_choice",),
    "chat.mixture": ("Mixture", "mix"),
    "chat.normalize": ("Normalized", "normalize"),
    "chat.opened": ("OpenedSources", "open_sources"),
    "chat.rows": ("SourceRows", "open_rows"),
    "chat.store": ("Conversations",),
    "corpus.options": ("PrepareOptions",),
    "corpus.prepare": ("prepare",),
    "corpus.recipe": ("Recipe",),
    "corpus.reproduction": ("reproduce",),
    "corpus.verify": ("verify",),
    "downloads.plans": ("FetchOptions",),
    "downloads.registry": ("DatasetSpec", "choose_datasets"),
    "errors": ("PipelineError",),
    "hub.retry": ("RetryPolicy",),
    "preflight.amounts": ("SizingParameters",),
    "preflight.run": ("run_preflight",),
    "progress": ("ProgressBars",),
    "storage.cache_options": ("CacheOptions",),
    "storage.stored_folders": ("prune", "stored_caches"),
    "templates.chat_format": ("chat_format",),
    "templates.chatml": ("render",),
    "token_caches.named_tokenizer": ("named_tokenizer",),
    "token_caches.trained_tokenizer": ("train_tokenizer",),
    "tokenization.bpe_training": ("check_vocab_size",),
    "tokenization.tokenizer": ("Tokenizer", "load_tokenizer"),
    "training.batch_order": ("BatchOrder",),
    "training.chat_datasets": ("DPODataset", "PretrainDataset", "SFTDataset"),
    "training.loader": ("loader",),
    "training.sharded": ("ShardedTokenDataset",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}

__all__ = [
    "BatchOrder",
    "CacheOptions",
    "Conversations",
    "DPODataset",
    "DatasetSpec",
    "FetchOptions",
    "Mixture",
    "Normalized",
    "OpenedSources",
    "PipelineError",
    "PrepareOptions",
    "PretrainDataset",
    "ProgressBars",
    "Recipe",
    "RetryPolicy",
    "SFTDataset",
    "ShardedTokenDataset",
    "SizingParameters",
    "SourceRows",
    "Tokenizer",
    "chat_format",
    "check_choice",
    "check_vocab_size",
    "choose_datasets",
    "load_tokenizer",
    "loader",
    "mix",
    "named_tokenizer",
    "normalize",
    "open_rows",
    "open_sources",
    "prepare",
    "prune",
    "render",
    "reproduce",
    "run_preflight",
    "stored_caches",
    "train_tokenizer",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_PLACE_OF[name]}"), name)
    globals()[name] = found  # the next use does not come here
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
