"""From single messages to conversations: the best path through every message tree. Pure.

A message names its parent; a root has none. Each tree gives one path: from the root along the
best-ranked replies to a message without replies. If people also ranked siblings of the last answer
of a path, the worst of them makes a preference pair with it. A message that is not used is counted
under the reason, so the counts add up to the number of messages.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

TREE_COLUMNS = ("message_id", "parent_id", "role", "deleted", "review_result", "rank")
"""The columns of a message that decide its place; the others are read with the path."""

_UNRANKED = 1 << 30


class Assembly(NamedTuple):
    """The paths, and the number of messages by outcome.

    ``paths``: lists of row numbers, root first, in the order of the roots. ``worse``: for each
    path, the path to the worst-ranked sibling of its last answer; empty if no sibling has a worse
    rank. ``counts``: outcome -> messages.
    """

    paths: list[list[int]]
    worse: list[list[int]]
    counts: dict[str, int]


def best_paths(messages: Mapping[str, Sequence[Any]]) -> Assembly:
    """One path for each tree whose root is kept; ``messages`` maps ``TREE_COLUMNS`` to values.

    Messages that are deleted, or that the review rejected, are dropped with all their replies.
    Among replies the lowest rank is best, a reply without a rank comes last, and of equal ranks the
    earlier row is best. An answer without a rank is in no pair, because nobody compared it. People
    ranked answers of people and of models, so both may be on either side of a pair.
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
    worse = [_worse_path(messages, path, replies, kept) for path in paths]
    counts["on the best path"] = sum(map(len, paths))
    counts["ranked below the last answer"] = sum(map(bool, worse))
    counts["beside the best path"] = len(kept) - sum(map(len, paths)) - sum(map(bool, worse))
    return Assembly(paths, worse, dict(counts))


def _family(
    rows: list[int], parents: Sequence[Any], row_of: Mapping[Any, int]
) -> tuple[list[int], list[int], dict[int, list[int]]]:
    """Roots, orphans (their parent is missing), and the replies of each row."""
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
    """The rows and all rows under them, each once, also with cycles."""
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


def _worse_path(
    messages: Mapping[str, Sequence[Any]],
    path: list[int],
    replies: Mapping[int, list[int]],
    kept: set[int],
) -> list[int]:
    roles, ranks = messages["role"], messages["rank"]
    depth = next((at for at in range(len(path) - 1, 0, -1) if roles[path[at]] == "assistant"), 0)
    if not depth or ranks[path[depth]] is None:
        return []
    beside = (row for row in replies[path[depth - 1]] if row in kept and roles[row] == "assistant")
    worst = max((row for row in beside if ranks[row] is not None), key=lambda row: ranks[row])
    return [*path[:depth], worst] if ranks[worst] > ranks[path[depth]] else []
