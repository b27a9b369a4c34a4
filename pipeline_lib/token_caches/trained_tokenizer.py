"""The tokenizer of a mixture: trained once, then loaded as long as its key matches.

It is trained on roles and contents, never on control tokens. If a mixture has more bytes than the
limit, the start of its seeded order is used. The folder also holds the settings that
``transformers`` reads, so that ``AutoTokenizer.from_pretrained`` can open it.
"""

import json
import logging
from pathlib import Path
from typing import NamedTuple

from pipeline_lib import digest
from pipeline_lib.chat.mixture import Mixture
from pipeline_lib.storage.cache_options import CacheOptions
from pipeline_lib.storage.growing_folder import GrowingFolder
from pipeline_lib.storage.keyed_folder import Key, KeyedFolder, Record
from pipeline_lib.storage.stored_folders import explain
from pipeline_lib.templates.chatml import TEMPLATE
from pipeline_lib.tokenization.bpe_training import TrainingFacts, check_vocab_size, train_bpe
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS, ENDOFTEXT, IM_END, PAD
from pipeline_lib.tokenization.tokenizer import Tokenizer, load_tokenizer

KIND = "tokenizer"
FILE, CONFIG, GENERATION = "tokenizer.json", "tokenizer_config.json", "generation_config.json"
BUDGET = 256 << 20
"""The default limit of training text, in bytes."""
TRAINING_VERSION = 2
"""Increased when the same texts give another tokenizer."""
SETTINGS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": ENDOFTEXT,
    "pad_token": PAD,
    "chat_template": TEMPLATE,
    "clean_up_tokenization_spaces": False,
}
"""The content of ``tokenizer_config.json``, which ``transformers`` reads."""
STOPS = {
    "eos_token_id": [CONTROL_TOKENS.index(token) for token in (IM_END, ENDOFTEXT)],
    "pad_token_id": CONTROL_TOKENS.index(PAD),
}
"""The content of ``generation_config.json``: a model that is saved in a copy of the folder ends its
text with its turn, or with its document."""
_log = logging.getLogger(__name__)


class TrainedTokenizer(NamedTuple):
    """A tokenizer, the folder of its ``tokenizer.json``, and the reason why it was trained."""

    tokenizer: Tokenizer
    folder: Path
    explanation: str

    @property
    def place(self) -> str:
        """The folder, as recipes name it."""
        return str(self.folder)


def train_tokenizer(
    mixture: Mixture, cache: CacheOptions, *, vocab_size: int, max_bytes: int = BUDGET
) -> TrainedTokenizer:
    """Train the byte-level BPE of a mixture, or load it from the cache.

    ``vocab_size``: number of ids, with the 256 byte symbols and the control tokens. ``max_bytes``:
    train on at most that many bytes of text. Returns a ``NamedTuple``: ``tokenizer``, ``folder``
    (with ``tokenizer.json``, ``tokenizer_config.json`` and ``generation_config.json``, which tells
    ``generate`` of ``transformers`` where to stop), ``explanation``.

    If the texts have too few pairs to merge, there are fewer ids, and the log warns. ``ValueError``
    if ``vocab_size`` has no room for bytes and control tokens, or ``max_bytes`` is below 1;
    ``CacheError`` if a stored file differs from its record; ``Locked`` if another process trains
    the same tokenizer.
    """
    check_vocab_size(vocab_size)
    if max_bytes < 1:
        raise ValueError(f"max_bytes is {max_bytes}; expected a number of bytes above 0")
    folder = KeyedFolder(cache.root, KIND, _key(mixture, vocab_size, max_bytes))
    why, record = explain(folder), folder.load(TrainingFacts)
    _log.info("%s", why)
    if record is None:
        record = _trained(folder, mixture, vocab_size, max_bytes)
    folder.check(record, full=True)
    tokenizer = load_tokenizer(folder.path)
    if tokenizer.vocab_bound < vocab_size:
        _log.warning(
            "the texts ran out of pairs to merge: the tokenizer has %s ids, vocab_size asked for "
            "%s; take more text, or size the model by what the tokenizer has",
            *(f"{tokenizer.vocab_bound:,}", f"{vocab_size:,}"),
        )
    return TrainedTokenizer(tokenizer, folder.path, why)


def _key(mixture: Mixture, vocab_size: int, max_bytes: int) -> Key:
    return {
        "training_version": TRAINING_VERSION,
        "control_tokens": list(CONTROL_TOKENS),
        "vocab_size": vocab_size,
        "max_bytes": max_bytes,
        "max_bytes_selects": "start of the mixture's seeded order",
        "settings": digest.of_json({CONFIG: SETTINGS, GENERATION: STOPS}),
        "texts_fp": mixture.fingerprint,
    }


def _trained(
    folder: KeyedFolder, mixture: Mixture, vocab_size: int, max_bytes: int
) -> Record[TrainingFacts]:
    with GrowingFolder(folder, TrainingFacts, TrainingFacts()) as writer:
        if writer.record is not None:  # another process was faster
            return writer.record
        result = train_bpe(mixture.contents(max_bytes), vocab_size)
        writer.write(FILE, result.json)
        for name, content in ((CONFIG, SETTINGS), (GENERATION, STOPS)):
            writer.write(name, json.dumps(content, indent=2).encode())
        writer.advance(1, result.facts)
        return writer.commit(complete=True)
