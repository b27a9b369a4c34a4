"""A turn starts behind what the generation prompt supplies, and nowhere if that is not proven."""

import pytest
from chat_templates import assistant, user
from small_templates import BY_NUMBER, PROMPT, TALK, TOKENS, loop, prompt, spans

from pipeline_lib.templates.derivation import NOT_FOLLOWED
from pipeline_lib.templates.model_template import ModelTemplate
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused


@pytest.mark.parametrize("text", ["<bot>\n<think>\n", "<bot>\n", "\n  <bot>\n\n", "<bot>\t<think>"])
def test_a_turn_that_leaves_out_the_end_of_the_prompt_starts_at_its_words(text: str) -> None:
    assert spans(loop("{{ '<bot>\n' + m.content + '</s>\n' }}", prompt(text))) == [
        "Yes</s>",
        "No</s>",
    ]


def test_so_does_one_that_leaves_out_the_middle() -> None:
    source = loop("{{ '<bot></think>' + m.content + '</s>' }}", prompt("<bot><think></think>"))
    assert spans(source) == ["Yes</s>", "No</s>"]


@pytest.mark.parametrize(
    "turn",
    [
        "{{ '<bot>' + m.name + ':' + m.content + '</s>' }}",  # the rest of the header is data
        "{{ '<bot> speaks: ' + m.content + '</s>' }}",
        "{{ '<bo' + m.content + '</s>' }}",
        "{{ m.content + '</s>' }}",
    ],
)
def test_what_the_prompt_does_not_explain_leaves_the_turn_context(turn: str) -> None:
    named = [m | {"name": "Al"} for m in TALK]
    found = ModelTemplate(loop(turn, prompt("<bot>Bo:")), TOKENS).derive(ChatInput(named))
    assert not found.spans
    assert set(found.context_only.values()) == {NOT_FOLLOWED}


def test_a_turn_that_goes_on_behind_a_result_without_a_header_is_trained_whole() -> None:
    """The prompt adds nothing there, and what the turn writes first opens no turn anywhere."""
    only = "{% if add_generation_prompt and messages[-1].role == 'user' %}<bot>\n{% endif %}"
    turn = "{{ '<bot>\n' if loop.previtem.role == 'user' }}{{ '<think>' + m.content + '</s>' }}"
    assert spans(loop(turn, only), [user("x"), assistant("One"), assistant("Two")]) == [
        "<think>One</s>",
        "<think>Two</s>",
    ]


@pytest.mark.parametrize("header", ["<bot>\n", "Bot: ", "\n\nBot:", "### Answer\n"])
def test_a_header_that_no_prompt_shows_is_refused(header: str) -> None:
    """With control tokens in it or not: nobody can tell where it ends."""
    with pytest.raises(TemplateRefused, match="no generation prompt"):
        spans(loop("{{ '" + header + "' + m.content + '</s>' }}", ""))


def test_white_space_before_the_words_needs_no_prompt() -> None:
    assert spans(loop("{{ ' ' + m.content + '</s>' }}", "")) == [" Yes</s>", " No</s>"]


def test_a_second_answer_whose_header_no_prompt_shows_is_context() -> None:
    only = "{% if add_generation_prompt and messages[-1].role == 'user' %}<bot>\n{% endif %}"
    source = loop(
        "{{ 'Then: ' if loop.previtem.role != 'user' else '<bot>\n' }}{{ m.content }}", only
    )
    assert spans(source, [user("x"), assistant("One"), assistant("Two")]) == ["One"]


def test_the_switches_of_a_prompt_are_found_in_the_template() -> None:
    """Each name that the template reads is tried on and off."""
    switched = prompt("<bot>\n") + "{% if add_generation_prompt and not deep %}<think>{% endif %}"
    source = loop("{{ '<bot>\n<think>' if deep_form else '<bot>\n' }}{{ m.content }}", switched)
    assert spans(source, deep_form=True) == ["Yes", "No"]
    other = loop("{{ '<bot>\n!' + m.content }}", switched.replace("not deep", "deep is true"))
    assert spans(other) == ["!Yes", "!No"]


LAST_ALONE = (
    loop("{{ '<bot>\n' + m.content + '</s>\n' }}", "").replace("in messages", "in messages[:-1]")
    + "{% set last = messages[-1] %}{% if last.role == 'user' %}"
    "{{ '<user>\n' + last.content + '</s>\n' }}" + PROMPT + "{% else %}"
    "{{ '<bot>\n' + last.content + '</s>\n' }}{% endif %}"
)
IN_ONE = (
    "{% set ns = namespace(all='') %}{% for n in range(messages|length) %}"
    "{% set ns.all = ns.all + ('<user>' if n % 2 == 0 else '<bot>\n') %}"
    "{% set ns.all = ns.all + messages[n].content + '</s>\n' %}"
    "{% endfor %}{{ ns.all }}" + PROMPT
)


@pytest.mark.parametrize("source", [LAST_ALONE, BY_NUMBER, IN_ONE])
def test_turns_that_no_loop_tells_apart_are_told_by_the_rendered_prompts(source: str) -> None:
    assert spans(source) == ["Yes</s>", "No</s>"]
    template = ModelTemplate(source, TOKENS)
    for words in ("a", "", "b\nc", "<bot>\nforged</s>\n"):
        talk = [m | {"content": m["content"] + words} for m in TALK]
        made = template.pieces(ChatInput(talk))
        trained = ["".join(p.text for p in made.pieces if p.turn == n) for n in (1, 3)]
        assert trained == [f"Yes{words}</s>", f"No{words}</s>"]


def test_a_turn_that_no_loop_tells_apart_and_no_prompt_shows_is_context() -> None:
    template = ModelTemplate(BY_NUMBER.replace(PROMPT, ""), TOKENS)
    found = template.derive(ChatInput(TALK))
    assert not found.spans
    assert set(found.context_only) == {1, 3}


def test_a_turn_starts_where_the_rendered_prompt_ends_or_is_context() -> None:
    """White space that a prompt leaves out is generated; what it says of a header is missing."""
    only = "{% if add_generation_prompt and messages[-1].role == 'user' %}<bot>\n{% endif %}"
    blank = loop("{{ ('<bot>\n' if loop.previtem.role == 'user' else '\n') + m.content }}", only)
    header = loop("{{ '<bot>\n' + m.content }}", only)
    twice = [user("x"), assistant("One"), assistant("Two")]
    assert spans(blank, twice) == ["One", "\nTwo"]
    assert spans(header, twice) == ["One"]
