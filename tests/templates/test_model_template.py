"""Conversations of a template: by a skeleton where there is one, checked now and then."""

from datetime import datetime

import pytest
from chat_templates import assistant, control_of, user

from pipeline_lib.templates.model_template import (
    CHECK_EVERY,
    PLAIN_CHECKS,
    SKELETONS_A_SHAPE,
    ModelTemplate,
)
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused

BARS = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MARKS = "<|assistant|><|user|><|end|>"


def template(source: str = BARS, **more: object) -> ModelTemplate:
    return ModelTemplate(source, control_of(source + MARKS), **more)  # type: ignore[arg-type]


def talk(number: int) -> ChatInput:
    return ChatInput([user(f"q {number}"), assistant(f"a {number}")])


def test_one_conversation_is_derived_and_the_others_of_its_shape_are_filled_in() -> None:
    made = template()
    first, *others = (made.pieces(talk(n)) for n in range(5))
    assert (made.counts.compiled, made.counts.by_skeleton) == (1, 4)
    assert first.skeleton is None
    assert {other.skeleton for other in others} == {others[0].skeleton} != {None}
    assert [other.text for other in others] == [made.program.plain(talk(n)) for n in range(1, 5)]
    learned = [piece.text for piece in others[0].pieces if piece.turn == 1]
    assert "".join(learned) == "a 1<|end|>"
    assert others[0].facts == first.facts


def test_a_skeleton_is_held_against_the_plain_text_at_first_and_then_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, rendered = template(), list[int]()
    made.pieces(talk(0))
    plain = made.program.plain

    def counted(given: ChatInput) -> str:
        rendered.append(made.counts.by_skeleton + 1)
        return plain(given)

    monkeypatch.setattr(made.program, "plain", counted)
    for number in range(2 * CHECK_EVERY):
        made.pieces(talk(number))
    assert rendered == [*range(1, PLAIN_CHECKS + 1), CHECK_EVERY, 2 * CHECK_EVERY]


def test_a_skeleton_that_writes_another_text_refuses_the_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = template()
    made.pieces(talk(0))
    monkeypatch.setattr(made.program, "plain", lambda given: "another text")
    with pytest.raises(TemplateRefused, match="skeleton differs"):
        made.pieces(talk(1))


def test_a_shape_with_too_many_forms_takes_the_full_way_and_is_counted() -> None:
    made = template(BARS.replace("{{ m.content }}", "{{ m.content|length }}: {{ m.content }}"))
    for number in range(SKELETONS_A_SHAPE + 3):
        given = ChatInput([user("q" * (number + 1)), assistant("a")])
        assert made.pieces(given).text == made.program.plain(given)
    assert made.counts.compiled == SKELETONS_A_SHAPE
    assert made.counts.in_full == {"too many forms of one shape": 3}


def test_keywords_and_the_date_are_the_templates() -> None:
    source = "{{ bos_token }}{{ strftime_now('%Y') }}" + BARS
    made = template(source, keywords={"bos_token": "<s>"}, today=datetime(2031, 5, 6))
    assert made.pieces(talk(1)).text.startswith("<s>2031<|user|>q 1<|end|>")
    assert template(source).pieces(talk(1)).text.startswith("2025<|user|>")
