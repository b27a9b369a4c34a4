"""What a run is expected to make of its sources: conversations, copies, tokens, rows.

The one place that turns sizes of sources into amounts of later stages; what is written and what
is held both follow from these. Estimates: a conversation for each row, lengths by ``density``.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.downloads.plans import EVERYTHING
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.sizes import Size
from pipeline_lib.preflight import ratios


@dataclass(frozen=True, kw_only=True)
class SizingParameters:
    """The parameters of a run that decide what its later stages write and hold.

    ``corpus`` is the Hub data set, and its config, that shards are made from; None: there are
    none, or those of the sample. ``train_tokens`` bounds them (None: the whole corpus).
    ``training_rows`` is the batch of the tiny model at the end (0: it is left out).
    ``ValueError`` for a number out of range.
    """

    max_len: int
    vocab_size: int
    weights: Mapping[str, float] = field(default_factory=dict)
    val_fraction: float = 0.05
    train_tokens: int | None = None
    corpus: tuple[str, str | None] | None = None
    training_rows: int = 0

    def __post_init__(self) -> None:
        for name in ("max_len", "vocab_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a number above 0")
        if not 0 < self.val_fraction < 1:
            raise ValueError(f"val_fraction is {self.val_fraction}; it must lie between 0 and 1")


class Amount(NamedTuple):
    """What one source gives: conversations of both splits, their bytes as they are stored, the
    copies of each in the pretraining text, whether they make pairs, and the messages of a source
    of trees (else 0)."""

    name: str
    conversations: int
    stored: int
    weight: float
    makes_pairs: bool
    messages: int


class CorpusSize(NamedTuple):
    """What is read of the corpus of the shards: bytes of UTF-8, documents."""

    text: int = 0
    documents: int = 1

    @property
    def shuffled(self) -> int:
        """Bytes that the shuffle buffer holds of it."""
        full = Recipe.shuffle_buffer * self.text // max(self.documents, 1)
        return min(full, Recipe.shuffle_buffer_bytes, self.text)


@dataclass(frozen=True)
class Expected:
    """The amounts of all sources and the corpus under the parameters of a run."""

    run: SizingParameters
    amounts: tuple[Amount, ...]
    corpus: CorpusSize

    @property
    def stored(self) -> int:
        """Bytes of all stored conversations."""
        return sum(amount.stored for amount in self.amounts)

    @property
    def copies(self) -> int:
        """Entries of the weighted index over the training conversations."""
        return math.ceil(sum(a.conversations * max(a.weight, 1.0) for a in self.amounts))

    @property
    def train_text(self) -> int:
        """Bytes of the weighted pretraining text."""
        return int(sum(a.stored * a.weight for a in self.amounts) * (1 - self.run.val_fraction))

    @property
    def stream_tokens(self) -> int:
        """Tokens of the weighted pretraining text."""
        return int(self.train_text / ratios.bytes_per_token(self.run.vocab_size))

    @property
    def mean_tokens(self) -> float:
        """Tokens of a conversation, over all sources."""
        return self.stored / self._per_token / max(sum(a.conversations for a in self.amounts), 1)

    @property
    def sft_rows(self) -> int:
        """Training conversations that are no longer than a row."""
        return self._rows(self.amounts)

    @property
    def dpo_rows(self) -> int:
        """Pairs that are no longer than a row: one for each conversation with a prompt."""
        return self._rows(amount for amount in self.amounts if amount.makes_pairs)

    @property
    def shard_tokens(self) -> int:
        """Tokens of both splits of the shards."""
        there = int(self.corpus.text / self._per_token)
        if self.run.train_tokens is None:
            return there
        return min(there, int(self.run.train_tokens / (1 - self.run.val_fraction)))

    @property
    def shard_documents(self) -> int:
        """Documents that become shards."""
        return self.corpus.documents * self.shard_text // max(self.corpus.text, 1)

    @property
    def shard_text(self) -> int:
        """Bytes of the text that becomes shards."""
        return int(self.shard_tokens * self._per_token)

    @property
    def _per_token(self) -> float:
        return ratios.bytes_per_token(self.run.vocab_size)

    def _rows(self, amounts: Iterable[Amount]) -> int:
        kept = sum(a.conversations * self._share_within(a) for a in amounts)
        return int(kept * (1 - self.run.val_fraction))

    def _share_within(self, amount: Amount) -> float:
        mean = amount.stored / self._per_token / max(amount.conversations, 1)
        return ratios.share_within(mean, self.run.max_len)


def expect(
    found: Sequence[Size],
    sources: Mapping[str, DatasetSpec],
    run: SizingParameters,
    corpus: CorpusSize,
    limit: int,
) -> Expected:
    """The amounts of sources of these sizes, at most ``limit`` rows of each (-1: all)."""
    amounts = [_amount(size, sources[size.name], run, limit) for size in found]
    return Expected(run, tuple(amounts), corpus)


def _amount(size: Size, source: DatasetSpec, run: SizingParameters, limit: int) -> Amount:
    tree = source.group is not None
    text = ratios.TEXT_SHARE * (size.saved or 0) if size.text is None else size.text
    stored = text * (ratios.TREE_SHARE if tree else ratios.STORED_SHARE)
    rows = stored / ratios.CONVERSATION_BYTES if size.rows is None else size.rows
    conversations = rows / ratios.MESSAGES_A_TREE if tree else rows
    if limit != EVERYTHING and conversations > limit:
        stored, conversations = stored * limit / conversations, limit
    return Amount(
        size.name,
        math.ceil(conversations),
        math.ceil(stored),
        float(run.weights.get(size.name, 1.0)),
        source.role != "encyclopedic",
        (size.rows or 0) if tree else 0,
    )
