"""``Recipe``: everything that decides the bytes of a shard folder, and nothing else.

Folders, worker counts, intervals and progress are arguments of ``prepare``. A user's recipe may
name a branch or a local folder; ``prepare`` pins it first, and only pinned recipes are stored,
compared and digested.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline_lib import digest

ALGORITHM = 1
"""Version of order, split, batching and shard layout; a change of any output raises it."""

DEFAULT_DATASET, DEFAULT_CONFIG = "HuggingFaceFW/fineweb-edu", "sample-10BT"
DEFAULT_MAX_DOCUMENTS = 10_000
ALL_DOCUMENTS = 10**12
"""How a recipe records ``max_documents="all"``: more rows than any corpus has. It was written so
before there was a word for it, and digests must not change."""

RecipeFields = dict[str, Any]  # another algorithm version has other fields: see ``from_fields``
"""A recipe in JSON: every field and ``algorithm``."""

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
    """Source, tokenizer, bounds, seeds and sizes of a run: everything that decides its bytes.

    ``dataset``: a Hub dataset (``owner/name``) or a folder of Parquet files. ``config`` and
    ``revision`` (branch, tag or commit) belong to a Hub dataset. ``text_column`` holds the text.
    ``tokenizer``: a Hub repository, a folder or a ``tokenizer.json``, at ``tokenizer_revision``.
    ``eos_token`` ends every document (None: the tokenizer's own end token). ``max_documents``: rows
    to visit in shuffled order, skipped rows included, or ``"all"`` (kept as ``ALL_DOCUMENTS``).
    ``train_tokens``: the run stops after the document with which the training split reaches so
    many tokens, end tokens included. The two exclude each other; with neither, 10,000 rows are
    visited. ``seed``: of order and split, 0 to
    2**32 - 1. ``val_fraction``: share of the documents that are for validation, between 0 and 1.
    ``shard_tokens``: tokens in a full shard. ``shuffle_buffer`` (documents) and
    ``shuffle_buffer_bytes`` are the most that the shuffle holds. A batch ends with the row that
    brings it to ``tokenization_batch_size`` rows or to ``tokenization_batch_bytes``. Both sizes in
    bytes are of UTF-8 text. ``lanes``: independent streams that share files and bounds.

    ``ValueError`` for a value that is out of range.
    """

    dataset: str = DEFAULT_DATASET
    config: str | None = None
    revision: str | None = None
    text_column: str = "text"
    tokenizer: str = "openai-community/gpt2"
    tokenizer_revision: str | None = None
    eos_token: str | None = None
    max_documents: int | Literal["all"] | None = None
    train_tokens: int | None = None
    seed: int = 1337
    val_fraction: float = 0.05
    shard_tokens: int = 100_000_000
    shuffle_buffer: int = 10_000
    shuffle_buffer_bytes: int = 256 << 20
    tokenization_batch_size: int = 1_024
    tokenization_batch_bytes: int = 7 << 18  # the fast encoder cuts a batch of two mebibytes
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
        if self.max_documents == "all":
            object.__setattr__(self, "max_documents", ALL_DOCUMENTS)
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

    def fields(self) -> RecipeFields:
        """All fields and the algorithm version, as stored in checkpoints and manifests."""
        return {"algorithm": ALGORITHM, **dataclasses.asdict(self)}

    @property
    def row_bound(self) -> int | None:
        """Rows to visit at most; None if all are to be visited, or if tokens bound the run."""
        bound = self.max_documents
        return None if bound == ALL_DOCUMENTS or not isinstance(bound, int) else bound

    @property
    def digest(self) -> str:
        """Hex SHA-256 over all fields and the algorithm version."""
        return digest.of_json(self.fields())

    @property
    def label(self) -> str:
        """12 hex digits for the name of an output folder.

        They cover all fields, but of a path only its last part. So another parameter gives another
        folder, and a project that was moved keeps its folder.
        """
        short = {name: Path(getattr(self, name)).name for name in ("dataset", "tokenizer")}
        return digest.of_json({**self.fields(), **short})[:12]

    @classmethod
    def from_fields(cls, fields: RecipeFields) -> "Recipe":
        """The recipe that ``fields`` describes.

        ``ValueError`` for another algorithm version, and for a field that is missing or unknown.
        """
        rest = dict(fields)
        algorithm = rest.pop("algorithm", None)
        if algorithm != ALGORITHM:
            raise ValueError(
                f"it was made by algorithm version {algorithm}, this is version {ALGORITHM}; "
                "go on with the pipeline version that began it, or start a fresh run"
            )
        known = {field.name for field in dataclasses.fields(cls)}
        if wrong := sorted(known ^ rest.keys()):
            raise ValueError(
                f"it lacks fields or has unknown ones ({', '.join(wrong)}); go on with the "
                "pipeline version that began it, or start a fresh run"
            )
        return cls(**rest)

    def differences(self, other: "Recipe") -> list[tuple[str, Any, Any]]:
        """Fields that differ, as (name, mine, theirs)."""
        mine, theirs = self.fields(), other.fields()
        return [(name, mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]]


def lane_bound(total: int | None, lane: int, lanes: int) -> int | None:
    """Lane ``lane``'s part of a bound on the run, if there is a bound.

    Every lane gets ``total // lanes``, and the first ones get one more until the rest is dealt.
    """
    return None if total is None else total // lanes + (lane < total % lanes)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
