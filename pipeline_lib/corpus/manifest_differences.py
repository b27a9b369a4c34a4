"""Two manifests compared field by field, down to the last one."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

ABSENT = "absent"


class FieldDifference(NamedTuple):
    """A field whose values differ, each as JSON or ``ABSENT``.

    ``where``: the names that lead to it, as in ``shards.val[3].sha256``.
    """

    where: str
    made: str
    found: str


def differences(made: Any, found: Any, where: str = "") -> Iterator[FieldDifference]:
    """The fields that differ; values of other JSON types differ too, as 1 and 1.0 do."""
    if isinstance(made, dict) and isinstance(found, dict):
        for name in [*made, *(name for name in found if name not in made)]:
            yield from _member(made, found, name, f"{where}.{name}" if where else name)
    elif isinstance(made, list | tuple) and isinstance(found, list | tuple):
        sides = dict(enumerate(made)), dict(enumerate(found))
        for number in range(max(len(made), len(found))):
            yield from _member(*sides, number, f"{where}[{number}]")
    elif (one := json.dumps(made)) != (other := json.dumps(found)):
        yield FieldDifference(where, one, other)


def _member(made: Any, found: Any, name: object, where: str) -> Iterator[FieldDifference]:
    if name in made and name in found:
        yield from differences(made[name], found[name], where)
    else:
        shown = [json.dumps(side[name]) if name in side else ABSENT for side in (made, found)]
        yield FieldDifference(where, *shown)
