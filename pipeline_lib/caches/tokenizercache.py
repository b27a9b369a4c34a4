"""The tokenizer of a mixture: trained once, then loaded as long as its key matches.

It is trained on roles and contents, never on markers. A corpus above the byte budget is
represented by the start of the mixture's seeded order. The folder also says what
``transformers`` wants to know, so that ``AutoTokenizer.from_pretrained`` opens it.
"""

import json
import logging
from pathlib import Path
from typing import Any, NamedTuple

from pipeline_lib import digest
from pipeline_lib.caches.cachekey import META, Key, cache_folder, explain, load_meta, remedy
from pipeline_lib.caches.cachesite import CacheSite
from pipeline_lib.chat import CONTROL_TOKENS, ENDOFTEXT, PAD, TEMPLATE
from pipeline_lib.chats.mixture import Mixture
from pipeline_lib.durable import atomic, folders
from pipeline_lib.errors import CacheError
from pipeline_lib.lock import FolderLock
from pipeline_lib.tokenizer import Tokenizer, check_vocab_size, load_tokenizer, train_tokenizer

FILE, CONFIG = "tokenizer.json", "tokenizer_config.json"
BUDGET = 256 << 20
TRAINING_VERSION = 2
"""Raised when the same texts give another tokenizer."""
SETTINGS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": ENDOFTEXT,
    "pad_token": PAD,
    "chat_template": TEMPLATE,
    "clean_up_tokenization_spaces": False,
}
"""What ``transformers`` reads beside the tokenizer itself."""
_log = logging.getLogger(__name__)


class TrainedTokenizer(NamedTuple):
    """A tokenizer, the folder its ``tokenizer.json`` lies in, and why it was used or trained."""

    tokenizer: Tokenizer
    folder: Path
    explanation: str


def trained_tokenizer(
    mixture: Mixture, site: CacheSite, *, vocab_size: int, max_bytes: int = BUDGET
) -> TrainedTokenizer:
    """The byte-level BPE of a mixture: from the cache, or trained on ``max_bytes`` of it.

    A mixture with too few pairs to merge gives fewer ids, and a warning. ``ValueError`` if
    ``vocab_size`` has no room for bytes and control tokens; ``CacheError`` if the stored file is
    not the one that was trained.
    """
    check_vocab_size(vocab_size)
    if max_bytes < 1:
        raise ValueError(f"max_bytes is {max_bytes}; expected a number of bytes above 0")
    key: Key = {
        "training_version": TRAINING_VERSION,
        "control_tokens": list(CONTROL_TOKENS),
        "vocab_size": vocab_size,
        "max_bytes": max_bytes,
        "max_bytes_selects": "start of the mixture's seeded order",
        "settings": digest.of_json(SETTINGS),
        "texts_fp": mixture.fingerprint,
    }
    folder = cache_folder(site.root, "tokenizer", key)
    why = explain(site.root, "tokenizer", key)
    _log.info("%s", why)
    meta = load_meta(folder, key)
    if meta is None:
        folders.make_folder(folder)
        with FolderLock(folder / "lock"):
            meta = load_meta(folder, key) or _train(folder, key, mixture)
    _check(folder, meta)
    tokenizer = load_tokenizer(folder)
    if tokenizer.vocab_bound < vocab_size:
        _log.warning(
            "the texts ran out of pairs to merge: the tokenizer has %s ids, vocab_size asked for "
            "%s; take more text, or size the model by what the tokenizer has",
            *(f"{tokenizer.vocab_bound:,}", f"{vocab_size:,}"),
        )
    return TrainedTokenizer(tokenizer, folder, why)


def _train(folder: Path, key: Key, mixture: Mixture) -> dict[str, Any]:
    texts = mixture.contents(int(key["max_bytes"]))
    made = train_tokenizer(texts, vocab_size=int(key["vocab_size"]))
    contents = {
        FILE: made.json,
        CONFIG: json.dumps(SETTINGS, indent=2).encode(),
    }
    files = {
        name: atomic.write_new(folder / name, [data])._asdict() for name, data in contents.items()
    }
    folders.sync_folder(folder)
    trained = {name: value for name, value in made._asdict().items() if name != "json"}
    meta = {"key": key, "complete": True, "files": files, "trained": trained}
    atomic.save_json(folder / META, meta)
    return meta


def _check(folder: Path, meta: dict[str, Any]) -> None:
    for name, expected in meta["files"].items():
        path = folder / name
        if not path.is_file() or digest.sha256_file(path) != expected["sha256"]:
            raise CacheError(f"{path} is not the tokenizer that was trained; {remedy(folder)}")
