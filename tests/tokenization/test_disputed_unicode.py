"""Characters whose class depends on the age of a Unicode table are found, and only those."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.tokenization.disputed_unicode import DISPUTED, is_disputed

ALL = [point for first, last in DISPUTED for point in range(first, last + 1)]


def test_every_disputed_character_is_found_anywhere_in_a_text() -> None:
    for point in ALL:
        for text in (chr(point), f"abc {chr(point)}", f"\u00e9{chr(point)}\U0001f600" * 3):
            assert is_disputed(text.encode()), hex(point)


def test_their_neighbours_are_not_disputed() -> None:
    known = set(ALL)
    for point in {p + step for p in ALL for step in (-1, 1)} - known:
        assert not is_disputed(f"a{chr(point)}b".encode()), hex(point)


@given(st.text(max_size=30))
def test_a_text_is_disputed_exactly_if_it_holds_such_a_character(text: str) -> None:
    assert is_disputed(text.encode()) == any(ord(character) in set(ALL) for character in text)


@pytest.mark.parametrize(
    "text", ["", "plain", "na\u00efve", "\u65e5\u672c", "\U0001f469", "\u0915"]
)
def test_common_scripts_and_emoji_are_not_disputed(text: str) -> None:
    assert not is_disputed(text.encode())


def test_the_spans_are_in_order_and_apart() -> None:
    flat = [point for span in DISPUTED for point in span]
    assert flat == sorted(flat) and all(first <= last for first, last in DISPUTED)
