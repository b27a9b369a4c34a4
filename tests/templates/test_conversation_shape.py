"""The shape of a conversation is all of it but its strings, which have numbered places."""

import copy
import random
from typing import Any

import pytest
from chat_templates import ORIGINAL, assistant, changed, shapes_for, user

from pipeline_lib.templates.conversation_shape import places_of, shape_of
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.traced_values import with_reasoning_names

SHAPES = list(shapes_for(next(iter(ORIGINAL))).values())


def at(given: ChatInput, path: tuple[Any, ...]) -> Any:
    """The value at a path; messages have the two names of reasoning that templates read."""
    value: Any = with_reasoning_names(given.messages) if path[0] == "messages" else given.tools
    for step in path[1:]:
        value = value[step]
    return value


@pytest.mark.parametrize("given", SHAPES, ids=range(len(SHAPES)))
def test_the_place_of_a_path_holds_the_string_that_is_there(given: ChatInput) -> None:
    _, strings = shape_of(given)
    places = places_of(given)
    assert {*places.values()} == {*range(len(strings))}
    assert all(at(given, path) == strings[place] for path, place in places.items())


@pytest.mark.parametrize("given", SHAPES, ids=range(len(SHAPES)))
def test_other_strings_leave_the_shape_and_anything_else_changes_it(given: ChatInput) -> None:
    shape, strings = shape_of(given)
    other = ChatInput(changed(given.messages, random.Random(1)), given.tools, given.keywords)
    assert shape_of(other)[0] == shape
    assert len(shape_of(other)[1]) == len(strings)
    assert hash(shape) == hash(shape_of(copy.deepcopy(given))[0])
    fewer = ChatInput(given.messages[:-1], given.tools, given.keywords)
    asked = ChatInput(given.messages, given.tools, {**given.keywords, "more": "x"})
    offered = ChatInput(given.messages, [*(given.tools or []), {"n": 1}], given.keywords)
    said = ChatInput([*given.messages[:-1], {"role": "user", "content": None}], given.tools)
    assert len({shape, *(shape_of(g)[0] for g in (fewer, asked, offered, said))}) == 5


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (user("x"), assistant("x")),
        ({"role": "user", "content": "x"}, {"content": "x", "role": "user"}),
        (user("x"), {"role": "user", "content": ["x"]}),
        ({"role": "user", "content": ["x"]}, {"role": "user", "content": ["x", "y"]}),
        ({"role": "user", "content": {"a": "x"}}, {"role": "user", "content": {"b": "x"}}),
        ({"role": "user", "content": [1]}, {"role": "user", "content": [2]}),
        ({"role": "user", "content": [1]}, {"role": "user", "content": [True]}),
    ],
)
def test_roles_keys_lists_and_numbers_are_part_of_the_shape(one: Any, other: Any) -> None:
    assert shape_of(ChatInput([one]))[0] != shape_of(ChatInput([other]))[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning": "r"},
        {"thinking": "t"},
        {"reasoning_content": "c"},
        {"reasoning": "r", "thinking": None},
        {"reasoning": "r", "thinking": "t"},
        {"reasoning_content": "c", "thinking": "t"},
        {"reasoning_content": None, "thinking": None},
        {"reasoning": ["r"]},
    ],
    ids=str,
)
def test_reasoning_has_the_names_that_templates_read_it_by(fields: dict[str, Any]) -> None:
    given = ChatInput([user("q"), {**assistant("a"), **fields}])
    (_, strings), places = shape_of(given), places_of(given)
    shown = with_reasoning_names(given.messages)[1]
    for name in ("reasoning_content", "thinking", "reasoning"):
        text, place = shown.get(name), places.get(("messages", 1, name))
        assert (strings[place] if place is not None else None) == (
            text if isinstance(text, str) else None
        )
