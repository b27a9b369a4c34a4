"""A saved position is checked field by field before it is used."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import OrderChanged, OrderError
from pipeline_lib.training.batch_order import BatchOrder

GOOD: Any = BatchOrder(10, 2, dataset="a", seed=1).state_dict()


def load(**changed: Any) -> BatchOrder:
    order = BatchOrder(10, 2, dataset="a", seed=1)
    order.load_state_dict({**GOOD, **changed})
    return order


def test_a_saved_position_is_used() -> None:
    assert load(position=17).state_dict() == {**GOOD, "position": 17}


@pytest.mark.parametrize("position", [-7, -1, 2**63, True, 3.0, "3", None, float("nan")])
def test_what_is_no_position_is_refused_and_shown(position: Any) -> None:
    with pytest.raises(OrderError, match=r"position = "):
        load(position=position)
    with pytest.raises(OrderError, match="the position is"):
        BatchOrder(10, 2).position = position


def test_a_position_may_come_from_numpy() -> None:
    order = BatchOrder(10, 2)
    order.position = np.int64(12)  # type: ignore[assignment]
    assert type(order.state_dict()["position"]) is int


@given(st.sampled_from(sorted(GOOD)), st.sampled_from([1.5, None, [], "x", True, b"a"]))
def test_a_field_of_another_type_is_named(name: str, value: Any) -> None:
    if type(value) is type(GOOD[name]):
        return
    with pytest.raises(OrderError, match=f"{name} = .*, expected {type(GOOD[name]).__name__}"):
        load(**{name: value})


def test_fields_that_are_missing_or_not_known_are_named_together() -> None:
    state = {name: GOOD[name] for name in GOOD if name not in ("shuffle", "size")} | {"epoch": 3}
    with pytest.raises(
        OrderError, match=r"no field 'size'; no field 'shuffle'; a field 'epoch' that is not known"
    ):
        BatchOrder(10, 2).load_state_dict(state)
    with pytest.raises(OrderError, match="a saved position is a dict, this is 12"):
        BatchOrder(10, 2).load_state_dict(12)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [("size", 11), ("dataset", "b"), ("seed", 2), ("shuffle", False), ("version", 0)],
)
def test_a_position_of_another_order_is_refused_with_both_values(name: str, value: Any) -> None:
    with pytest.raises(OrderChanged, match=f"belongs to {name} {value}, this is {GOOD[name]};"):
        load(**{name: value})


def test_an_end_of_an_epoch_that_can_not_be_is_refused() -> None:
    with pytest.raises(OrderError, match="position = 9 at the end of an epoch of 10 samples"):
        load(position=9, at_end=True)
    assert len(load(position=10, at_end=True)) == 0


def test_a_state_that_is_refused_moves_nothing() -> None:
    order = load(position=6)
    with pytest.raises(OrderError):
        order.load_state_dict({**GOOD, "position": 8, "seed": 5})
    assert order.position == 6
