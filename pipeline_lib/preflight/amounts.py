"""The amounts that a run makes of its sources: conversations, tokens, rows.

The predictions of disk and memory both follow from them. They are estimates: each row gives one
conversation, and ``ratios`` gives the lengths.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline_lib.corpus.recipe import Recipe
from pipeline_lib.downloads.plans import EVERYTHING
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.downloads.sizes import CONVERSATION_BYTES, Size
from pipeline_lib.preflight import ratios
from pipeline_lib.token_caches.layout import Kind
from pipeline_lib.token_caches.named_tokenizer import NamedTokenizer


@dataclass(frozen=True, kw_only=True)
class SizingParameters:
    """The parameters of a run that decide how much its later stages write and hold.

    - ``max_len``: tokens in a row of the training datasets; ``vocab_size``: ids of the tokenizer.
    - ``tokenizer``: the one that is named and not trained here, if there is one; its ids count.
    - ``weights``: copies of each source in the pretraining text; 1 for one that is not named. A
      source with the weight 0 is in no dataset.
    - ``sft_documents``: whether documents are in the dataset for supervised training.
    - ``dpo_pairs``: ``"all"`` or ``"real"``; the rows of pairs are predicted as for ``"all"``,
      because what is a real pair is known only behind the normalizers.
    - ``val_fraction``: the share that is held out.
    - ``corpus``: Hub data set and config of the shards (None: the corpus of the sample, or none);
      ``train_tokens``: training tokens of the shards at most (None: those of the whole corpus).
    - ``training_rows``: rows in a batch of the tiny model at the end (0: no tiny model).

    ``ValueError`` for a number out of range.
    """

    max_len: int
    vocab_size: int
    weights: Mapping[str, float] = field(default_factory=dict)
    val_fraction: float = 0.05
    train_tokens: int | None = None
    corpus: tuple[str, str | None] | None = None
    training_rows: int = 0
    sft_documents: bool = False
    dpo_pairs: str = "all"
    tokenizer: NamedTokenizer | None = None

    def __post_init__(self) -> None:
        if self.tokenizer is not None:
            object.__setattr__(self, "vocab_size", self.tokenizer.tokenizer.vocab_bound)
        for name in ("max_len", "vocab_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a number above 0")
        if not 0 < self.val_fraction < 1:
            raise ValueError(f"val_fraction is {self.val_fraction}; it must lie between 0 and 1")


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """The amounts of all sources and of the corpus."""

    parameters: SizingParameters
    stored: Mapping[str, int]  # bytes of the conversations of each source
    messages: int  # rows of all sources of message trees
    copies: int  # entries of the weighted index over the conversations
    mean_tokens: float  # of a conversation
    train_text: int  # bytes of the weighted pretraining text
    rows: Mapping[Kind, int]  # of the caches of rows: conversations, pairs
    tokens: Mapping[Kind, int]  # of each token cache; a pair has two rows
    shard_tokens: int  # of both splits
    shard_text: int  # bytes of text in these tokens
    shuffled: int  # bytes of the documents in the shuffle buffer


class _Source(NamedTuple):
    conversations: int
    stored: int
    messages: int
    weight: float
    paired: bool

    def in_sft(self, documents: bool) -> bool:
        """Whether it is used for supervised training; a document answers nobody, so it makes no
        pair."""
        return bool(self.weight) and (self.paired or documents)


def expect(
    sizes: Sequence[Size],
    corpus: Size | None,
    specs: Mapping[str, DatasetSpec],
    parameters: SizingParameters,
    limit: int,
    *,
    sample: bool = False,
) -> Amounts:
    """The amounts of sources and a corpus of these sizes, at most ``limit`` rows of a source.

    ``sample``: they are those of the offline sample.
    """
    sources = {size.name: _source(size, specs[size.name], parameters, limit) for size in sizes}
    every, train = sources.values(), 1 - parameters.val_fraction
    per_token = ratios.bytes_per_token(parameters.vocab_size, sample=sample)
    conversations, stored = sum(s.conversations for s in every), sum(s.stored for s in every)
    train_text = int(sum(s.stored * s.weight for s in every) * train)
    text, documents = (corpus.text or 0, corpus.rows or 1) if corpus else (0, 1)
    shard_tokens = _shard_tokens(int(text / per_token), parameters)
    chats = [s for s in every if s.in_sft(parameters.sft_documents)]
    pairs = [s for s in every if s.in_sft(False)]
    return Amounts(
        parameters=parameters,
        stored={name: source.stored for name, source in sources.items()},
        messages=sum(s.messages for s in every),
        copies=math.ceil(sum(s.conversations * max(s.weight, 1.0) for s in every)),
        mean_tokens=stored / per_token / max(conversations, 1),
        train_text=train_text,
        rows={
            "sft": int(sum(s.conversations for s in chats) * train),
            "dpo": int(sum(s.conversations for s in pairs) * train),
        },
        tokens={
            "pretrain": int(train_text / per_token),
            "sft": int(sum(s.stored for s in chats) * train / per_token),
            "dpo": int(sum(s.stored for s in pairs) * train / per_token) * 2,
        },
        shard_tokens=shard_tokens,
        shard_text=int(shard_tokens * per_token),
        shuffled=shuffled(text, documents),
    )


def _source(size: Size, spec: DatasetSpec, parameters: SizingParameters, limit: int) -> _Source:
    tree = spec.group is not None
    text = ratios.TEXT_SHARE * (size.saved or 0) if size.text is None else size.text
    stored = text * (ratios.TREE_SHARE if tree else ratios.STORED_SHARE)
    rows = stored / CONVERSATION_BYTES if size.rows is None else size.rows
    conversations = rows / ratios.MESSAGES_A_TREE if tree else rows
    if limit != EVERYTHING and conversations > limit:
        stored, conversations = stored * limit / conversations, limit
    return _Source(
        conversations=math.ceil(conversations),
        stored=math.ceil(stored),
        messages=(size.rows or 0) if tree else 0,
        weight=float(parameters.weights.get(size.name, 1.0)),
        paired=spec.role != "encyclopedic",
    )


def _shard_tokens(there: int, parameters: SizingParameters) -> int:
    if parameters.train_tokens is None:
        return there
    return min(there, int(parameters.train_tokens / (1 - parameters.val_fraction)))


def shuffled(text: int, documents: int) -> int:
    """Bytes in the shuffle buffer of a corpus with so much text in so many documents."""
    full = Recipe.shuffle_buffer * text // max(documents, 1)
    return min(full, Recipe.shuffle_buffer_bytes, text)
