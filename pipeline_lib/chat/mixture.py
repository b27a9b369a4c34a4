"""How much of each source: a weighted index over stored conversations, and the look of it.

Nothing is copied: a mixture is an array of row numbers in a seeded order. Rendered texts are
made when they are asked for.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest, selection
from pipeline_lib.chat.store import Conversations
from pipeline_lib.records import ROLES
from pipeline_lib.table import Cell, Table
from pipeline_lib.templates import chatml

_BLOCK = 256
_COLUMNS = ("source", "weight", "rows", "rows after", "characters", "characters after", "share")
_COUNTED = ("tokens", "trained")


class Texts(Sequence[str]):
    """The rendered text of every conversation of a mixture, read from disk on access."""

    def __init__(self, conversations: Conversations, index: NDArray[np.int64]) -> None:
        self._conversations, self._index = conversations, index

    def __len__(self) -> int:
        return len(self._index)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[row] for row in range(*place.indices(len(self)))]
        return chatml.render(self._conversations[int(self._index[place])])

    def __iter__(self) -> Iterator[str]:
        for row in self._index:
            yield chatml.render(self._conversations[int(row)])


@dataclass(frozen=True)
class Mixture:
    """Conversations and the weighted index over them (int64, one entry for each copy)."""

    conversations: Conversations
    weights: Mapping[str, float]
    seed: int
    index: NDArray[np.int64]

    @property
    def texts(self) -> Texts:
        """The weighted, rendered texts."""
        return Texts(self.conversations, self.index)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what decides the texts: content, weights, seed and rule."""
        return text_digest(self.conversations.fingerprints, self.weights, self.seed)

    def contents(self, max_bytes: int) -> Iterator[str]:
        """Roles and contents in the order of the index, until ``max_bytes`` of UTF-8 are reached.

        Because the order is a seeded shuffle, this is a seeded sample of the mixture.
        """
        taken = 0
        for start in range(0, len(self.index), _BLOCK):
            turns = self.conversations.read(self.index[start : start + _BLOCK]).turns
            for role, content in zip(turns.roles.tolist(), turns.contents, strict=True):
                if taken >= max_bytes:
                    return
                taken += len(content)
                yield ROLES[role]
                yield content.decode()

    def report(self, counted: Mapping[str, Mapping[str, int]] | None = None) -> Table:
        """Rows and characters of each source, before and after weighting.

        ``counted`` are the counts of a cache made from the mixture; then the tokens and trained
        tokens it holds are shown too.
        """
        sources = self.conversations.counts
        characters = self.conversations.characters()
        ends = np.cumsum(list(sources.values()), dtype=np.int64)
        owner = np.searchsorted(ends, self.index, "right")
        rows_after = np.bincount(owner, minlength=len(sources)).tolist()
        after = np.bincount(owner, characters[self.index], len(sources)).astype(int).tolist()
        before = [int(part.sum()) for part in np.split(characters, ends[:-1])]
        rows: list[tuple[Cell, ...]] = []
        for i, (name, count) in enumerate(sources.items()):
            share = f"{after[i] / max(sum(after), 1):.1%}"
            weight = self.weights[name]
            row: tuple[Cell, ...] = (name, weight, count, rows_after[i], before[i], after[i], share)
            rows.append(
                (*row, *(counted.get(name, {}).get(c, 0) for c in _COUNTED)) if counted else row
            )
        return Table((*_COLUMNS, *(_COUNTED if counted else ())), tuple(rows))


def text_digest(fingerprints: Mapping[str, str], weights: Mapping[str, float], seed: int) -> str:
    """SHA-256 of what decides the texts of a mixture, with a weight for each of its sources."""
    return digest.of_json(
        {
            "conversations": list(fingerprints.items()),
            "weights": dict(weights),
            "seed": seed,
            "selection": selection.SELECTION_VERSION,
        }
    )


def used_weights(names: Iterable[str], weights: Mapping[str, float]) -> dict[str, float]:
    """The weight of each source; one that is not named counts once."""
    return {name: float(weights.get(name, 1.0)) for name in names}


def mix(
    conversations: Conversations,
    weights: Mapping[str, float],
    *,
    seed: int,
    optional: Collection[str] = (),
) -> Mixture:
    """Each source as often as its weight says: whole repeats, and a seeded part of one more.

    A source without a weight counts once. ``ValueError`` for a weight that is negative, for one
    whose source is not there and not ``optional``, and when nothing at all is left.
    """
    counts = conversations.counts
    absent = [name for name in weights if name not in counts and name not in optional]
    if absent:
        raise ValueError(
            f"weights name {', '.join(absent)}, but there is only {', '.join(counts)}; "
            "remove these weights, or name them as optional"
        )
    used = used_weights(counts, weights)
    index = selection.weighted_index(counts, used, seed)
    if not len(index):
        raise ValueError(
            f"nothing is left: rows {counts}, weights {used}; give a source that has rows a "
            "weight above 0"
        )
    return Mixture(conversations, used, seed, index)
