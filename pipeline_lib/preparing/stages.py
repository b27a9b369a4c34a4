"""The two stages between visited rows and shard files: encode, and write one batch.

Reading and hashing run in one thread, encoding in a second, writing in the caller's; each
hands batches on in order, so the overlap changes nothing but the time.
"""

from collections.abc import Generator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import encoders
from pipeline_lib.durable import atomic
from pipeline_lib.encoders import Encoded, Encoder
from pipeline_lib.engines import Closable
from pipeline_lib.errors import EncoderMismatch, TokenizerError
from pipeline_lib.preparing.visits import Batch
from pipeline_lib.shards import ShardWriter
from pipeline_lib.tokenizer import Tokenizer


class EncodingStage:
    """Chooses an encoder on the first batch, encodes batches, and keeps proving it equal."""

    def __init__(self, tokenizer: Tokenizer, kind: str, evidence: Path) -> None:
        self._tokenizer, self._kind, self._evidence = tokenizer, kind, evidence
        self.encoder: Encoder | None = None

    def run(self, batches: Closable[Batch]) -> Generator[tuple[Batch, Encoded], None, None]:
        """The batches with their ids. ``EncoderMismatch`` keeps the document as evidence."""
        with closing(batches):
            reference = self._tokenizer.reference
            chosen = encoders.choose_encoder(reference, self._kind)  # while the first is made
            for batch in batches:
                if self.encoder is None:
                    self.encoder = encoders.confirm(reference, chosen, self._kind, batch.texts)
                encoded = self.encoder.encode(batch.texts)
                if self.encoder is not reference:
                    for index in batch.probes:
                        self._prove(self.encoder, batch.texts[index])
                yield batch, encoded

    def _prove(self, used: Encoder, text: bytes) -> None:
        try:
            encoders.compare(self._tokenizer.reference, used, [text])
        except EncoderMismatch as error:
            atomic.replace_bytes(self._evidence, text)
            raise EncoderMismatch(
                f"{error}. The document is kept in {self._evidence}; start a fresh run in "
                "another output folder with --encoder tokenizers"
            ) from error


class Written(NamedTuple):
    """What became of one batch: whether the token bound was crossed in it, and how many of
    its documents stand behind the crossing one and were not written."""

    crossed: bool
    left_out: int


def with_end_tokens(
    encoded: Encoded, tokenizer: Tokenizer
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Tokens with one end token per text, in the shard dtype, and the length of each text.

    The range is checked before the ids are narrowed, because numpy wraps silently.
    """
    ids, offsets = encoded
    if len(ids) and int(ids.max()) >= tokenizer.vocab_bound:
        raise TokenizerError(
            f"the encoder gave id {int(ids.max())}, but ids end at {tokenizer.vocab_bound - 1}; "
            "run again with --encoder tokenizers"
        )
    if (ids == tokenizer.eos_id).any():
        raise TokenizerError(
            f"a document's own text became the end token {tokenizer.eos_token!r}; mark it special "
            "in tokenizer.json or choose another with --eos-token"
        )
    texts = len(offsets) - 1
    tokens = np.empty(len(ids) + texts, tokenizer.dtype)
    ends = offsets[1:] + np.arange(texts)
    is_text = np.ones(len(tokens), np.bool_)
    is_text[ends] = False
    tokens[is_text] = ids
    tokens[ends] = tokenizer.eos_id
    return tokens, np.diff(offsets) + 1


def write_token_batch(
    writers: Mapping[str, ShardWriter],
    batch: Batch,
    encoded: Encoded,
    tokenizer: Tokenizer,
    train_tokens: int | None,
) -> Written:
    """Append a batch to both splits, up to and including the document that crosses the bound."""
    tokens, lengths = with_end_tokens(encoded, tokenizer)
    kept_train, kept_val = batch.train, len(batch.texts) - batch.train
    crossed = False
    if train_tokens is not None:
        totals = writers["train"].tokens + np.cumsum(lengths[: batch.train])
        crossing = int(np.searchsorted(totals, train_tokens))
        if crossing < batch.train:
            crossed, kept_train = True, crossing + 1
            val_positions = batch.positions[batch.train :]
            kept_val = int(np.searchsorted(val_positions, batch.positions[crossing]))
    border = int(lengths[: batch.train].sum())
    for split, kept, part, sizes in (
        ("train", kept_train, tokens[:border], lengths[: batch.train]),
        ("val", kept_val, tokens[border:], lengths[batch.train :]),
    ):
        writers[split].append(part[: int(sizes[:kept].sum())], sizes[:kept])
    return Written(crossed, len(batch.texts) - kept_train - kept_val)
