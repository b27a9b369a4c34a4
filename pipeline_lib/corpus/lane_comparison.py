"""One lane is made again and compared; what differs is told with the place it came from."""

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import NamedTuple

from pipeline_lib.corpus.batches import Probing
from pipeline_lib.corpus.comparing_store import ComparingStore, OtherEncoding
from pipeline_lib.corpus.job import Job
from pipeline_lib.corpus.lane import Lane
from pipeline_lib.corpus.manifest import Manifest
from pipeline_lib.corpus.row_origins import NumberedDocument, PlacedText, origins
from pipeline_lib.corpus.shard_comparer import SHOWN, OtherIds
from pipeline_lib.corpus.state import Checkpoint

_SHOWN_BYTES = 60


class Findings(NamedTuple):
    """Faults of one kind: the first ones as lines, and how many there are."""

    lines: list[str]
    total: int

    def shown(self, what: str) -> list[str]:
        """The first lines, and one that counts the rest; ``what`` names it."""
        lines = self.lines[:SHOWN]
        left = self.total - len(lines)
        return lines + ([f"and {left:,} more {what}"] if left else [])


class ComparedLane(NamedTuple):
    """A lane that was made again: its last commit, what differs, and how it was checked.

    ``encoder``: the name of the encoder, None for a lane without documents. ``checked`` / ``long``:
    documents that the reference encoded too, and those too long for it.
    """

    last: Checkpoint
    documents: Findings
    files: Findings
    encodings: Findings
    encoder: str | None
    checked: int
    long: int


def joined(parts: Iterable[Findings]) -> Findings:
    """The faults of several lanes or splits, in turn, so that the first ones are of each."""
    every = list(parts)
    turns = zip_longest(*(part.lines for part in every))
    lines = [line for turn in turns for line in turn if line is not None]
    return Findings(lines, sum(part.total for part in every))


def compare_lane(job: Job, lane: int, found: Manifest, probing: Probing) -> ComparedLane:
    """Make a lane again; ``job.staging`` is the published folder, in which nothing is written."""
    store = ComparingStore(job, lane, found)
    last = Lane(job, lane, store, probing).run()
    encoding, comparers = store.encoding, list(store.writers.values())
    others = [other for comparer in comparers for other in comparer.others]
    wanted = {other.row for other in others} | {other.row for other in encoding.others}
    texts = origins(job.pinned, lane, wanted)
    return ComparedLane(
        last,
        joined(Findings([_ids_line(o, texts) for o in c.others], c.different) for c in comparers),
        joined(Findings(c.faults, len(c.faults)) for c in comparers),
        Findings([_encoding_line(o, texts) for o in encoding.others], encoding.different),
        encoding.used["name"] if encoding.used else None,
        encoding.checked,
        encoding.long,
    )


def _ids_line(other: OtherIds, texts: Mapping[int, PlacedText]) -> str:
    document = _told((other.split, other.document), texts.get(other.row))
    return (
        f"{other.path}, token {other.token:,}: {document} goes on with ids {other.made}, the shard "
        f"with {other.found or 'nothing'}"
    )


def _encoding_line(other: OtherEncoding, texts: Mapping[int, PlacedText]) -> str:
    return (
        f"{_told(other.document, texts.get(other.row))} begins with ids {other.found}, but the "
        f"reference gives {other.reference}; prepare the folder again with --encoder tokenizers"
    )


def _told(document: NumberedDocument, text: PlacedText | None) -> str:
    split, number = document
    if text is None:
        return f"{split} document {number:,}"
    return f"{split} document {number:,} ({text.file}, row {text.row:,}: {text[:_SHOWN_BYTES]!r})"
