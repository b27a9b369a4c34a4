"""Which answers of a conversation are learned."""

import pytest

from pipeline_lib.templates.policies import ChatPolicy, Learn

ROLES = ["system", "user", "assistant", "user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize(
    ("learn", "expected"), [("all", {2, 4, 6}), ("last message", {6}), ("last turn", {4, 6})]
)
def test_the_last_turn_is_all_that_follows_the_last_question(
    learn: Learn, expected: set[int]
) -> None:
    assert ChatPolicy(learn).learned(ROLES) == expected


@pytest.mark.parametrize("learn", ["all", "last message", "last turn"])
def test_without_a_question_or_an_answer_nothing_is_made_up(learn: Learn) -> None:
    assert ChatPolicy(learn).learned(["assistant"]) == {0}
    assert ChatPolicy(learn).learned(["user"]) == set()


@pytest.mark.parametrize("name", ["learn", "reasoning", "history"])
def test_an_unknown_word_is_named_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 'x'; expected one of"):
        ChatPolicy(**{name: "x"})  # type: ignore[arg-type]
