"""Deterministic choices: identity and split of a text, samples, weighted copies, orders. Pure.

Every choice depends on content or on a seed, never on position, time or machine. Random numbers
are raw 64-bit outputs of PCG64: numpy guarantees that these never change (for the methods of
`Generator` it does not). A random order is the stable ranking of such numbers, so every sorting
library gives the same order. (seed, names) address a stream of numbers, so a new source changes
nothing for the others.
"""

import hashlib
import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hashlib import _Hash

Split = Literal["train", "val"]
SELECTION_VERSION = 1  # part of every cache key that depends on `draws`


def identity_prefix(seed: int) -> "_Hash":
    """Hash state with which all identities of one seed start: `sha256(f"{seed}\\0")`."""
    return hashlib.sha256(f"{seed}\0".encode())


def identity(prefix: "_Hash", data: bytes) -> bytes:
    """Identity of one document: 32 bytes, `sha256(f"{seed}\\0{text}")`; `data` is UTF-8."""
    hasher = prefix.copy()
    hasher.update(data)
    return hasher.digest()


def val_threshold(val_fraction: float) -> int:
    """The threshold for `side`, an integer of 64 bits."""
    if not 0 < val_fraction < 1:
        raise ValueError(f"val_fraction is {val_fraction}; it must lie between 0 and 1, exclusive")
    return int(val_fraction * 2**64)


def side(identity_: bytes, threshold: int) -> Split:
    """Split of an identity: "val" if its first 64 bits, big-endian, are below `threshold`."""
    return "val" if int.from_bytes(identity_[:8], "big") < threshold else "train"


def split_for(text: str, seed: int, val_fraction: float) -> Split:
    """Split of a text; it depends only on the text, the seed and the fraction."""
    return side(identity(identity_prefix(seed), text.encode()), val_threshold(val_fraction))


def draws(count: int, seed: int, *names: str) -> NDArray[np.uint64]:
    """`count` raw 64-bit random numbers of the stream that seed and names address."""
    stream = int.from_bytes(hashlib.sha256("\0".join(names).encode()).digest()[:8], "big")
    generator = np.random.PCG64(np.random.SeedSequence([seed, stream]))
    return np.asarray(generator.random_raw(count), dtype=np.uint64)


def permutation(count: int, seed: int, *names: str) -> NDArray[np.int64]:
    """Seeded order of `range(count)`: the ranking of one random number per position."""
    return np.argsort(draws(count, seed, *names), kind="stable").astype(np.int64)


def sample(count: int, limit: int, seed: int, *names: str) -> NDArray[np.int64]:
    """At most `limit` of `range(count)`, ascending, without replacement; -1 takes all.

    A smaller sample is a subset of a larger one.
    """
    if sample_size(count, limit) == count:
        return np.arange(count, dtype=np.int64)
    return np.sort(permutation(count, seed, *names)[:limit])


def sample_size(count: int, limit: int) -> int:
    """Number of rows that `sample` returns."""
    if limit < -1:
        raise ValueError(f"limit is {limit}; expected a number of rows, or -1 for all of them")
    return count if limit == -1 else min(limit, count)


def copies(count: int, weight: float, seed: int, *names: str) -> NDArray[np.int64]:
    """`range(count)` repeated `floor(weight)` times, plus a sample for the fraction, ascending.

    The sample is drawn without replacement and has `count * fraction` rows, rounded to the nearest
    integer (half up).
    """
    if not (math.isfinite(weight) and weight >= 0):
        raise ValueError(f"weight is {weight}; expected a finite number that is not negative")
    whole = math.floor(weight)
    extra = math.floor((weight - whole) * count + 0.5)
    rows = np.repeat(np.arange(count, dtype=np.int64), whole)
    if not extra:
        return rows
    return np.sort(np.concatenate([rows, sample(count, extra, seed, *names)]), kind="stable")


def weighted_index(
    counts: dict[str, int], weights: dict[str, float], seed: int
) -> NDArray[np.int64]:
    """Row numbers in seeded order, each row as often as the weight of its source says.

    `counts`: number of rows of each source; rows are numbered source after source. A source
    without a weight has weight 1. Copies of a row are spread over the whole index.
    """
    starts = np.cumsum([0, *counts.values()])
    parts = [
        copies(count, weights.get(name, 1.0), seed, "copies", name) + start
        for (name, count), start in zip(counts.items(), starts[:-1], strict=True)
    ]
    rows = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    return rows[permutation(len(rows), seed, "mixture")]
