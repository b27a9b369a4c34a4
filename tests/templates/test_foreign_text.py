"""What is learned is text of the turn itself, behind what was said before it, whoever wrote the
template; and a skeleton says the same as the derivation."""

import random
from typing import Any

import pytest
from chat_templates import assistant, user
from small_templates import PROMPT, TALK, TOKENS, loop, spans

from pipeline_lib.templates.foreign_text import ORDER
from pipeline_lib.templates.model_template import ModelTemplate
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused

ANSWER = "{{ '<bot>\n' }}{{ 1 }}{{ m.content + '</s>\n' }}"
OF_ANOTHER = {
    "JSON of a list": "[messages[0].content]|tojson",
    "JSON of the conversation": "messages|tojson",
    "JSON in the form of a text": "[1, 2]|tojson(separators=(messages[0].content, ':'))",
    "a list as text": "[m.content, messages[0].content]",
    "capitals of a sum": "('x' ~ messages[0].content)|upper",
    "a replacement": "('x' ~ messages[0].content)|replace('O', '0')",
    "a number that it spells": "messages[0].content|int",
    "a date in its form": "strftime_now(messages[0].content)",
    "tools": "tools|tojson",
}


@pytest.mark.parametrize("name", OF_ANOTHER)
def test_text_of_others_is_never_learned_in_whatever_form(name: str) -> None:
    source = loop(ANSWER.replace("1", OF_ANOTHER[name], 1))
    given = ChatInput(TALK, [{"type": "function", "function": {"name": "f"}}])
    with pytest.raises(TemplateRefused):
        ModelTemplate(source, TOKENS).derive(given)


def test_a_form_of_the_turns_own_text_is_learned() -> None:
    for form in ("{'a': m.content}|tojson", "('x' ~ m.content)|upper", "{}|tojson"):
        assert len(spans(loop(ANSWER.replace("1", form, 1)))) == 2


def test_a_template_can_not_open_a_turn_of_others_in_an_answer() -> None:
    source = loop("{{ '<bot>\n' + m.content[:1] + '</s><user>' + m.content[1:] + '</s>\n' }}")
    with pytest.raises(TemplateRefused, match="start of another turn"):
        spans(source)


REVERSED = loop("{{ '<bot>\n' + m.content + '</s>\n' }}").replace("messages %", "messages[::-1] %")
HINTS = loop("{{ '<bot>\n' + m.content + '</s>\n' }}").replace(
    "'<user>\n' + m.content",
    "'<user>\n' + m.content + (loop.nextitem.content if loop.nextitem is defined else '')",
)
USERS = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"


@pytest.mark.parametrize("source", [REVERSED, HINTS, USERS + REVERSED.replace("[::-1]", "")])
def test_what_is_said_later_does_not_stand_before_an_answer(source: str) -> None:
    found = ModelTemplate(source, TOKENS).derive(ChatInput(TALK))
    assert found.context_only[1] == ORDER


@pytest.mark.parametrize("after", ["\nUSER: ", "\n\n### User:\n"])
def test_words_behind_an_answer_that_no_token_ends_are_not_learned(after: str) -> None:
    assert spans(loop("{{ '<bot>\n' + m.content + '" + after + "' }}")) == ["Yes", "No"]


TEXTS = ("", " ", "\n", "a", "a\n", "<think>\n", "<think>\nb\n</think>\n\n", "</think>c", "</s>")
STRANGE = {
    "nothing between the turns": "{% for m in messages %}{{ m.content }}{% endfor %}",
    "no end": loop("{{ '<bot>\n' + m.content }}"),
    "trimmed in the history": loop(
        "{{ '<bot>\n' + (m.content if loop.last else m.content|trim) + '</s>' }}"
    ),
    "what stands behind thoughts": loop(
        "{{ '<bot>\n' + m.content.split('</think>')[-1] + '</s>' }}"
    ),
    "answers left out": loop("{% if loop.last %}{{ '<bot>\n' + m.content + '</s>' }}{% endif %}"),
    "a user trimmed once answered": loop("{{ '<bot>\n' + m.content + '</s>' }}").replace(
        "'<user>\n' + m.content", "'<user>\n' + (m.content if loop.last else m.content|trim)"
    ),
    "a prompt that thinks": loop(
        "{{ '<bot>\n' + m.content + '</s>' }}", PROMPT.replace("<bot>\n", "<bot>\n<think>\n")
    ),
}


def said(template: ModelTemplate, messages: list[dict[str, Any]]) -> object:
    try:
        found = template.pieces(ChatInput(messages))
    except TemplateRefused as refused:
        return refused.reason
    letters = [(kind.turn, text) for text, kind in zip(found.texts, found.kinds, strict=True)]
    return [turn for turn, text in letters for _ in text], found.facts


@pytest.mark.parametrize("name", STRANGE)
def test_a_mask_does_not_depend_on_the_conversations_before(name: str) -> None:
    """A template that has seen others answers as one that has seen none."""
    chance, template = random.Random(name), ModelTemplate(STRANGE[name], TOKENS)
    for _ in range(60):
        texts = [chance.choice(TEXTS) + chance.choice(TEXTS) for _ in range(4)]
        talk = [(user, assistant)[n % 2](text) for n, text in enumerate(texts)]
        talk = talk[: chance.choice((2, 4))]
        assert said(template, talk) == said(ModelTemplate(STRANGE[name], TOKENS), talk), talk
    assert template.counts.by_skeleton > 10
