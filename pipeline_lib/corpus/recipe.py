"""``Recipe``: everything that decides the bytes of a shard folder, and nothing else.

Folders, worker counts, intervals and progress are arguments of ``prepare``. A recipe as a
user writes it may name a branch or a local folder; ``prepare`` pins it first, and only
pinned recipes are stored, compared and digested.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline_lib import digest

ALGORITHM = 1
"""Version of order, split, batching and shard layout; a change of any output raises it."""

DEFAULT_DATASET, DEFAULT_CONFIG = "HuggingFaceFW/fineweb-edu", "sample-10BT"
DEFAULT_MAX_DOCUMENTS = 10_000

_COUNTS = (
    "max_documents",
    "train_tokens",
    "shard_tokens",
    "shuffle_buffer",
    "shuffle_buffer_bytes",
    "tokenization_batch_size",
    "tokenization_batch_bytes",
    "lanes",
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to prepare, from what, with which seeds and sizes.

    ``max_documents`` counts rows visited in shuffled order, skipped ones included;
    ``train_tokens`` stops after the document that crosses it. They exclude each other;
    with neither, 10,000 documents are visited. Sizes named ``*_bytes`` are UTF-8 bytes.
    ``ValueError`` for anything out of range.
    """

    dataset: str = DEFAULT_DATASET
    config: str | None = None
    revision: str | None = None
    text_column: str = "text"
    tokenizer: str = "openai-community/gpt2"
    tokenizer_revision: str | None = None
    eos_token: str | None = None
    max_documents: int | None = None
    train_tokens: int | None = None
    seed: int = 1337
    val_fraction: float = 0.05
    shard_tokens: int = 100_000_000
    shuffle_buffer: int = 10_000
    shuffle_buffer_bytes: int = 256 << 20
    tokenization_batch_size: int = 1_024
    tokenization_batch_bytes: int = 7 << 18  # at two mebibytes the fast encoder would cut it
    lanes: int = 1

    def __post_init__(self) -> None:
        if self.dataset == DEFAULT_DATASET and self.config is None:
            object.__setattr__(self, "config", DEFAULT_CONFIG)
        if self.max_documents is None and self.train_tokens is None:
            object.__setattr__(self, "max_documents", DEFAULT_MAX_DOCUMENTS)
        if self.max_documents is not None and self.train_tokens is not None:
            raise ValueError(
                f"max_documents={self.max_documents} and train_tokens={self.train_tokens} "
                "exclude each other; give one of them"
            )
        self._check_numbers()
        for name in ("dataset", "text_column", "tokenizer"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a non-empty string")

    def _check_numbers(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and (not _is_int(value) or not 0 < value < 2**63):
                raise ValueError(f"{name} is {value!r}; give a whole number from 1 to 2**63 - 1")
        if not _is_int(self.seed) or not 0 <= self.seed < 2**32:
            raise ValueError(f"seed is {self.seed!r}; give a whole number from 0 to 4294967295")
        fraction = self.val_fraction
        if not isinstance(fraction, float) or not 0 < fraction < 1:
            raise ValueError(f"val_fraction is {fraction!r}; give a number between 0 and 1")

    def fields(self) -> dict[str, Any]:
        """All fields and the algorithm version, as stored in checkpoints and manifests."""
        return {"algorithm": ALGORITHM, **dataclasses.asdict(self)}

    @property
    def digest(self) -> str:
        """Hex SHA-256 over all fields and the algorithm version."""
        return digest.of_json(self.fields())

    @property
    def label(self) -> str:
        """12 hex digits to name an output folder by: over all fields, paths cut to their last
        part, so that another parameter is another folder and a moved project is not."""
        short = {name: Path(getattr(self, name)).name for name in ("dataset", "tokenizer")}
        return digest.of_json({**self.fields(), **short})[:12]

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Recipe":
        """The recipe that ``fields`` describes; ``ValueError`` for another algorithm."""
        rest = dict(fields)
        algorithm = rest.pop("algorithm", None)
        if algorithm != ALGORITHM:
            raise ValueError(
                f"it was made by algorithm version {algorithm}, this is version {ALGORITHM}; "
                "go on with the pipeline version that began it, or start a fresh run"
            )
        return cls(**rest)

    def differences(self, other: "Recipe") -> list[tuple[str, Any, Any]]:
        """Fields that differ, as (name, mine, theirs)."""
        mine, theirs = self.fields(), other.fields()
        return [(name, mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]]


def bound_of_lane(total: int, lane: int, lanes: int) -> int:
    """Lane ``lane``'s part of a bound: ``total // lanes``, the first ones get one more."""
    return total // lanes + (lane < total % lanes)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
