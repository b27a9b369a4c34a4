"""From single messages to conversations: the best path through every message tree. Pure.

A message names its parent. A root has none; a path goes from a root along the best-ranked
replies to a message without replies, one path for each tree. What is not reached is counted
under the reason that cut it off, so the counts add up to the messages.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

TREE_COLUMNS = ("message_id", "parent_id", "deleted", "review_result", "rank")
"""The columns of a message that decide its place; the others are read with the path."""

_UNRANKED = 1 << 30


class Assembly(NamedTuple):
    """Paths as lists of row numbers, root first, in the order of the roots; messages by fate."""

    paths: list[list[int]]
    counts: dict[str, int]


def best_paths(messages: Mapping[str, Sequence[Any]]) -> Assembly:
    """One path for each tree whose root is kept; ``messages`` maps ``TREE_COLUMNS`` to values.

    Messages that are deleted, or whose review rejected them, go with all their replies. Among
    replies the lowest rank is best, one without a rank comes last, the earlier row decides
    between equals.
    """
    ids, parents = messages["message_id"], messages["parent_id"]
    row_of: dict[Any, int] = {}
    for row, message_id in enumerate(ids):
        row_of.setdefault(message_id, row)
    distinct = sorted(row_of.values())
    counts = Counter({"duplicate id": len(ids) - len(distinct)})
    roots, orphans, replies = _family(distinct, parents, row_of)
    dropped = [row for row in distinct if _is_dropped(messages, row)]
    pruned = set(_below(dropped, replies))
    lost = set(_below(orphans, replies)) - pruned
    counts["deleted or rejected, with replies"] = len(pruned)
    counts["parent missing, with replies"] = len(lost)
    kept = set(_below(roots, replies)) - pruned
    counts["in a cycle"] = len(distinct) - len(kept | pruned | lost)
    best = _best_reply(messages["rank"], replies, kept)
    paths = [list(_follow(root, best)) for root in roots if root in kept]
    counts["on the best path"] = sum(map(len, paths))
    counts["beside the best path"] = len(kept) - counts["on the best path"]
    return Assembly(paths, dict(counts))


def _family(
    rows: list[int], parents: Sequence[Any], row_of: Mapping[Any, int]
) -> tuple[list[int], list[int], dict[int, list[int]]]:
    """Roots, orphans, and the replies of each row."""
    roots, orphans = [], []
    replies: dict[int, list[int]] = {}
    for row in rows:
        if parents[row] is None:
            roots.append(row)
        elif parents[row] in row_of:
            replies.setdefault(row_of[parents[row]], []).append(row)
        else:
            orphans.append(row)
    return roots, orphans, replies


def _is_dropped(messages: Mapping[str, Sequence[Any]], row: int) -> bool:
    return messages["deleted"][row] is True or messages["review_result"][row] is False


def _below(tops: Iterable[int], replies: Mapping[int, list[int]]) -> Iterator[int]:
    """The rows and everything under them, each once, cycles included."""
    seen: set[int] = set()
    waiting = list(tops)
    while waiting:
        row = waiting.pop()
        if row not in seen:
            seen.add(row)
            yield row
            waiting.extend(replies.get(row, ()))


def _best_reply(
    ranks: Sequence[int | None], replies: Mapping[int, list[int]], kept: set[int]
) -> dict[int, int]:
    def place(row: int) -> tuple[int, int]:
        rank = ranks[row]
        return (_UNRANKED if rank is None else rank, row)

    alive = {row: [reply for reply in under if reply in kept] for row, under in replies.items()}
    return {row: min(under, key=place) for row, under in alive.items() if under}


def _follow(root: int, best: Mapping[int, int]) -> Iterator[int]:
    row: int | None = root
    while row is not None:
        yield row
        row = best.get(row)
