"""What a template pays for, so that each rendering ends after a bounded amount of work."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from functools import wraps
from typing import Any

from pipeline_lib.tracing.trace import TemplateRefused, running

Called = Callable[..., Any]  # a filter or a test

CHEAP = frozenset(
    ("abs", "count", "d", "default", "first", "float", "int", "last", "length", "round", "safe")
)
"""Filters that look at one item only."""

LAZY = frozenset(
    ("items", "list", "map", "reject", "rejectattr", "reverse", "select", "selectattr")
)
"""Filters that look at items, and not into them."""

LARGEST_POWER = 64
"""Whole numbers have at most so many bits; decimals are rounded to at most so many places."""


def read_shallow(value: Any) -> Any:
    """Pay for a look at each item, or at each character; an iterator pays as it goes on."""
    if isinstance(value, Iterator):
        return _each_paid(value)
    if isinstance(value, str):
        running().read(str.__len__(value))
    elif isinstance(value, Sized):
        running().read(0, len(value))
    return value


def read_deep(value: Any) -> Any:
    """The same, and for what is in the items."""
    paid = read_shallow(value)
    if isinstance(value, dict):
        for inner in value.values():
            read_deep(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            read_deep(inner)
    return paid


def read_for_member(value: Any) -> Any:
    """Pay for a search; a mapping finds its names at once."""
    return value if isinstance(value, dict) else read_deep(value)


def _each_paid(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        running().read(0, 1)
        yield value


def paid_filters(known: Mapping[str, Called]) -> dict[str, Called]:
    """Filters that pay for what they are given."""
    looking = {name: read_shallow if name in LAZY else read_deep for name in known}
    return {n: f if n in CHEAP else _paid(f, looking[n]) for n, f in known.items()}


def paid_tests(known: Mapping[str, Any]) -> dict[str, Called]:
    """Tests that pay for what they compare."""
    return {n: _paid(f, read_for_member if n == "in" else read_deep) for n, f in known.items()}


def _paid(function: Callable[..., Any], read: Callable[[Any], Any]) -> Callable[..., Any]:
    first = int(hasattr(function, "jinja_pass_arg"))  # the environment, or the like of it

    @wraps(function)
    def paid(*given: Any, **named: Any) -> Any:
        values = [*given[:first], *map(read, given[first:])]
        return function(*values, **{name: read(each) for name, each in named.items()})

    return paid


def bounded_number(value: Any) -> Any:
    """The value; ``TemplateRefused`` for a whole number of many digits."""
    if isinstance(value, int) and abs(value) >> LARGEST_POWER:
        raise TemplateRefused("template makes too large a number", f"over {LARGEST_POWER} bits")
    return value
