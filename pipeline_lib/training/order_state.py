"""A saved position of an order of batches, and the checks before it is used."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any, TypedDict

from pipeline_lib.errors import OrderChanged, OrderError

LAST_POSITION = 2**62
"""Positions are 64-bit numbers; more samples than that are not trained on."""


class OrderState(TypedDict):
    """A saved position of an order.

    ``position``: the next position of the endless stream. ``at_end``: the last batch of an epoch
    was taken, but not yet the end behind it, so the next pass is empty. ``size``: number of
    samples. ``dataset``: digest of the dataset. ``seed``, ``shuffle``: of the order. ``version``:
    of the rule that makes the order.
    """

    version: int
    position: int
    at_end: bool
    size: int
    dataset: str
    seed: int
    shuffle: bool


_KINDS: dict[str, type] = {
    "version": int,
    "position": int,
    "at_end": bool,
    "size": int,
    "dataset": str,
    "seed": int,
    "shuffle": bool,
}
_OF_THE_ORDER = ("version", "size", "dataset", "seed", "shuffle")
_REMEDY = "; load a state that state_dict() gave, or set the position of a new order by hand"


def check_state(state: Any, mine: OrderState) -> None:
    """Nothing, if a saved state belongs to the order whose present state is ``mine``.

    ``OrderError`` for a field that is missing, unknown, of another type or out of range;
    ``OrderChanged`` for one that belongs to another order. Both name every such field.
    """
    if not isinstance(state, Mapping):
        raise OrderError(f"a saved position is a dict, this is {state!r}{_REMEDY}")
    wrong = [*_other_fields(state), *_other_types(state)] or _out_of_range(state)
    if wrong:
        raise OrderError(f"the saved position has {'; '.join(wrong)}{_REMEDY}")
    other = [
        f"{name} {state[name]}, this is {dict(mine)[name]}"
        for name in _OF_THE_ORDER
        if state[name] != dict(mine)[name]
    ]
    if other:
        raise OrderChanged(
            f"the saved position belongs to {'; to '.join(other)}; make the order as it was when "
            "the position was saved, or begin at position 0"
        )


def check_position(position: Any) -> int:
    """A position of the endless stream; ``OrderError`` if it can not be one."""
    if _whole(position) is None or not 0 <= position <= LAST_POSITION:
        raise OrderError(
            f"the position is {position!r}; expected a whole number of samples, 0 or more"
        )
    return int(position)


def above_zero(name: str, value: Any) -> int:
    """A whole number; ``ValueError`` if it is another thing, or not above 0."""
    number = _whole(value)
    if number is None or number < 1:
        raise ValueError(f"{name} is {value!r}; it must be a whole number above 0")
    return number


def _whole(value: Any) -> int | None:
    """The number as an ``int``, also one of numpy; None for a bool, a fraction, anything else."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def _other_fields(state: Mapping[Any, Any]) -> list[str]:
    missing = [f"no field {name!r}" for name in _KINDS if name not in state]
    return missing + [f"a field {name!r} that is not known" for name in state if name not in _KINDS]


def _other_types(state: Mapping[Any, Any]) -> list[str]:
    return [
        f"{name} = {state[name]!r}, expected {kind.__name__}"
        for name, kind in _KINDS.items()
        if name in state and type(state[name]) is not kind  # a bool is no number here
    ]


def _out_of_range(state: Mapping[Any, Any]) -> list[str]:
    position, size = state["position"], state["size"]
    if not 0 <= position <= LAST_POSITION:
        return [f"position = {position}, expected 0 to {LAST_POSITION}"]
    if state["at_end"] and position < size:
        return [f"position = {position} at the end of an epoch of {size} samples"]
    return []
