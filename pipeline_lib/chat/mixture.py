"""How much of each source: a weighted index over stored conversations, and a report of it.

Nothing is copied: a mixture is an array of row numbers in a seeded order. A text is rendered when
it is read.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pipeline_lib import digest, selection
from pipeline_lib.chat import missing
from pipeline_lib.chat.store import Conversations
from pipeline_lib.records import ROLES
from pipeline_lib.table import Cell, Table
from pipeline_lib.templates import chatml

_BLOCK = 256
_COLUMNS = ("source", "weight", "rows", "rows after", "characters", "characters after", "share")
_COUNTED = ("tokens", "trained")


class Texts(Sequence[str]):
    """The rendered text of every conversation of a mixture, read from disk on access.

    ``ValueError`` at a conversation that ChatML can not render (see ``chatml.segments``).
    """

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
    """Conversations and a weighted index over them.

    ``conversations``: those of all sources. ``weights``: source -> weight. ``seed``: decides the
    order. ``index`` (int64): row numbers of ``conversations``, one entry for each copy.
    ``missing``: source that was asked for and is not in the texts -> the reason. ``unused``: names
    that have a weight and were not chosen.
    """

    conversations: Conversations
    weights: Mapping[str, float]
    seed: int
    index: NDArray[np.int64]
    missing: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    @property
    def used(self) -> Conversations:
        """The conversations of the sources with a weight above 0.

        Give these to ``SFTDataset`` and ``DPODataset``: a weight of 0 takes a source out of
        everything. Other weights count for the pretraining text alone.
        """
        weighted = [name for name, weight in self.weights.items() if weight]
        return self.conversations.only([*weighted, *self.conversations.missing])

    def only(self, names: Sequence[str]) -> "Mixture":
        """The mixture of some of the sources, with their weights; errors as ``mix``."""
        chosen = self.conversations.only(names)
        weights = {name: self.weights[name] for name in chosen.counts}
        known = {**chosen.counts, **chosen.missing}
        allowed = [name for name in self.missing if name in known]
        return mix(chosen, weights, seed=self.seed, allow_missing=allowed)

    @property
    def texts(self) -> Texts:
        """The rendered texts, in the order of the index."""
        return Texts(self.conversations, self.index)

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of everything that decides the texts: content, weights, seed and rule."""
        return text_digest(self.conversations.fingerprints, self.weights, self.seed)

    def contents(self, max_bytes: int) -> Iterator[str]:
        """Roles and contents in the order of the index, up to ``max_bytes`` of content (UTF-8).

        The order is a seeded shuffle, so this is a seeded sample of the mixture. The last content
        is not cut. A blank content, as beside tool calls, is left out.
        """
        taken = 0
        for start in range(0, len(self.index), _BLOCK):
            turns = self.conversations.read(self.index[start : start + _BLOCK]).turns
            for role, content in zip(turns.roles.tolist(), turns.contents, strict=True):
                if taken >= max_bytes:
                    return
                taken += len(content)
                yield ROLES[role]
                if content:
                    yield content.decode()

    def report(self, counted: Mapping[str, Mapping[str, int]] | None = None) -> Table:
        """A table with the rows and characters of each source, before and after weighting.

        Columns: ``source``, ``weight``, ``rows``, ``rows after``, ``characters``, ``characters
        after``, ``share`` (of the characters after); with missing or unused sources ``note``.
        ``counted``: the counts of a cache that was built from the mixture; they add the columns
        ``tokens`` and ``trained`` (tokens with loss).
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
        table = Table((*_COLUMNS, *(_COUNTED if counted else ())), tuple(rows))
        unused = dict.fromkeys(self.unused, "not chosen")
        return missing.with_notes(table, missing.as_notes(self.missing) | unused)


def text_digest(fingerprints: Mapping[str, str], weights: Mapping[str, float], seed: int) -> str:
    """Hex SHA-256 of everything that decides the texts; ``weights`` has every source.

    A source with the weight 0 decides nothing.
    """
    used = {name: weight for name, weight in weights.items() if weight}
    return digest.of_json(
        {
            "conversations": [item for item in fingerprints.items() if item[0] in used],
            "weights": used,
            "seed": seed,
            "selection": selection.SELECTION_VERSION,
        }
    )


def used_weights(names: Iterable[str], weights: Mapping[str, float]) -> dict[str, float]:
    """The weight of each source; 1 for a source without a weight."""
    return {name: float(weights.get(name, 1.0)) for name in names}


def mix(
    conversations: Conversations,
    weights: Mapping[str, float],
    *,
    seed: int,
    optional: Collection[str] = (),
    allow_missing: Collection[str] = (),
) -> Mixture:
    """Take each source as often as its weight says: whole copies, and a seeded sample of one more.

    ``weights``: source -> weight, such as 1.5; a source without a weight has weight 1.
    ``optional``: names in ``weights`` that need not be chosen. What was missing before stays
    missing. ``MissingSources`` if a weight above 0 leaves no row of a source that is not in
    ``allow_missing``. ``ValueError`` for a weight that is negative or not finite, for a weight of a
    source that is neither chosen nor optional, and if no row is left.
    """
    counts, before = conversations.counts, conversations.missing
    unused = [name for name in weights if name not in counts and name not in before]
    absent = [name for name in unused if name not in optional]
    if absent:
        raise ValueError(
            f"weights name {', '.join(absent)}, but there is only {', '.join(counts)}; "
            "remove these weights, or name them as optional"
        )
    used = used_weights(counts, weights)
    index = selection.weighted_index(counts, used, seed)
    lost = _without_rows(counts, used, index)
    new = {name: reason for name, reason in lost.items() if name not in before}
    missing.accept(new, {**counts, **before}, allow_missing)
    if not len(index):
        raise ValueError(
            f"nothing is left: rows {counts}, weights {used}; give a source that has rows a "
            "weight above 0"
        )
    return Mixture(conversations, used, seed, index, {**before, **new}, tuple(unused))


def _without_rows(
    counts: Mapping[str, int], weights: Mapping[str, float], index: NDArray[np.int64]
) -> dict[str, str]:
    """The sources that have a weight and no row in the index, with the reason."""
    ends = np.cumsum(list(counts.values()), dtype=np.int64)
    taken = np.bincount(np.searchsorted(ends, index, "right"), minlength=len(counts)).tolist()
    return {
        name: f"the weight {weights[name]} leaves none of its {count:,} rows; raise it, or set it "
        "to 0 if that is meant"
        for (name, count), rows in zip(counts.items(), taken, strict=True)
        if weights[name] > 0 and not rows
    }
