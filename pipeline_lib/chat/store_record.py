"""The record of one source's store: its parts, its open part, and the report of its rows."""

from dataclasses import dataclass, field

from pipeline_lib import digest, selection

SPLITS: tuple[selection.Split, ...] = ("train", "val")


@dataclass(frozen=True)
class SourceReport:
    """The outcome of normalising one source.

    ``rows``: rows that were read. ``train`` and ``val``: conversations of each split. ``rejects``:
    rejected rows by reason. ``notes``: kept rows by note. ``messages``: single messages of a tree
    source by outcome. ``first_traceback``: of the first exception in the normalizer.
    """

    rows: int = 0
    train: int = 0
    val: int = 0
    rejects: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    first_traceback: str = ""

    @property
    def rejected(self) -> int:
        """Number of rejected rows."""
        return sum(self.rejects.values())


@dataclass(frozen=True)
class PartFile:
    """One file of a part: the conversations of one split."""

    file: str
    rows: int


@dataclass(frozen=True)
class ProbedRow:
    """A row and its result, to be compared with a later one.

    ``best`` and ``worse``: its address. ``digest``: of the whole result. ``shown``: the result in
    short, for people.
    """

    best: tuple[int, ...]
    worse: tuple[int, ...]
    digest: str
    shown: str


@dataclass(frozen=True)
class StoreDetails:
    """The details in the record of a store.

    ``parts``: for each finished part, split -> file, for the splits that have conversations in it.
    ``tail``: the same for the open part, up to the last commit; a later commit replaces it.
    ``digests``: split -> running digest of its conversations (hex). ``report``: of all rows so far.
    ``probed``: the rows of the probe so far. ``repeatable``: whether they gave the same results
    twice. ``changed``: what changed of the code while the rows were normalised.
    """

    parts: tuple[dict[str, PartFile], ...] = ()
    tail: dict[str, PartFile] = field(default_factory=dict)
    digests: dict[str, str] = field(
        default_factory=lambda: dict.fromkeys(SPLITS, digest.Chain().state)
    )
    report: SourceReport = field(default_factory=SourceReport)
    probed: tuple[ProbedRow, ...] = ()
    repeatable: bool = True
    changed: tuple[str, ...] = ()
