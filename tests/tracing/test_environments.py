"""Templates are code of strangers: what is not allowed is refused, in a bounded number of steps."""

import pytest
from chat_templates import ORIGINAL, assistant, user

from pipeline_lib.tracing.program import ChatInput, ChatProgram
from pipeline_lib.tracing.trace import MOST_STEPS, TemplateRefused

GIVEN = ChatInput([user("Hello"), assistant("Hi")])
DOUBLING = (
    "{% set ns = namespace(x='ab') %}"
    "{% for i in range(99) %}{% set ns.x = ns.x {} ns.x %}{% endfor %}"
)
A_LOT = "a" * 99_999
PASSES = "{% for i in range(99998) %}{% endfor %}"
HOSTILE = {
    "an endless loop": "{% for a in range(99999) %}{% for b in range(9) %}{% endfor %}{% endfor %}",
    "an endless loop that stands in for the count": "{% macro step_taken() %}{% endmacro %}"
    "{% macro __step() %}{% endmacro %}"
    "{% for a in range(99999) %}{% for b in range(9) %}{% endfor %}{% endfor %}",
    "a loop in a macro": "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}",
    "text that doubles": DOUBLING.replace("{}", "~"),
    "text that doubles by sums": DOUBLING.replace("{}", "+"),
    "a list that doubles": DOUBLING.replace("{}", "+").replace("'ab'", "[1, 2]"),
    "huge repetition": "{{ 'x' * 9999999999 }}",
    "a huge list": "{{ ([0] * 9999999999)|length }}",
    "a power": "{{ 9 ** 9 ** 9 }}",
    "a wide format": "{{ '%9999999999d' % 1 }}",
    "a wide format method": "{{ '{:9999999999}'.format(1) }}",
    "a wide format in a test": "{% if '%9999999999d' % 1 == 'x' %}{% endif %}",
    "a replacement that explodes": "{{ '"
    + "a" * 99999
    + "'|replace('a', '"
    + "b" * 99999
    + "') }}",
    "a join that explodes": "{{ messages|join('" + "b" * 99999 + "'.replace('b', 'c' * 9999)) }}",
    "the centre filter": "{{ 'x'|center(9999999999) }}",
    "the class of a string": "{{ ''.__class__ }}",
    "the class of a message": "{{ messages[0].__class__.__mro__ }}",
    "an attribute by name": "{{ messages|map(attribute='__class__')|list }}",
    "a namespace with a hidden name": "{% set ns = namespace(__class__=1) %}",
    "a hidden name set later": "{% set ns = namespace() %}{% set ns.__init__ = 1 %}",
    "globals of a function": "{{ raise_exception.__globals__ }}",
    "a name of the sandbox": "{{ __emitted('<|im_end|>') }}",
    "another file": "{% include '/etc/passwd' %}",
    "another template": "{% extends 'x' %}",
    "an import": "{% import 'x' as x %}",
    "chance": "{{ [1, 2]|random }}",
    "changing the messages": "{{ messages.append(1) }}",
    "no template": "{% for %}",
    "a long template": "x" * (2 << 20),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_refused(name: str) -> None:
    with pytest.raises(TemplateRefused):
        ChatProgram(HOSTILE[name], {}).proven(GIVEN)


def test_what_is_not_allowed_refuses_only_conversations_that_need_it() -> None:
    source = "{% if messages|length > 2 %}{{ 'a'|indent }}{% else %}{{ 'b' }}{% endif %}"
    program = ChatProgram(source, {})
    assert program.proven(GIVEN).text == "b"
    with pytest.raises(TemplateRefused, match="filter: indent"):
        program.proven(ChatInput([*GIVEN.messages, user("x")]))


def test_a_switch_is_a_name_that_a_template_reads_and_may_not_have_set() -> None:
    source = (
        "{% if not deep is defined %}{% set deep = true %}{% endif %}{% set mine = 1 %}"
        "{% macro own(x) %}{{ x }}{% endmacro %}{% for m in messages %}{{ own(mine) }}{% endfor %}"
        "{{ wide|default(1) }}{{ bos_token }}{{ range(2) if messages }}"
    )
    assert ChatProgram(source, {}).switches == {"deep", "wide", "bos_token"}


def test_refusals_are_the_same_on_any_machine() -> None:
    """They count passes and characters, never time."""
    assert MOST_STEPS == 100_000
    assert ChatProgram(PASSES, {}).proven(GIVEN).text == ""
    with pytest.raises(TemplateRefused, match="steps"):
        ChatProgram(PASSES + "{% for i in range(3) %}{% endfor %}", {}).proven(GIVEN)


@pytest.mark.parametrize("name", ORIGINAL)
def test_templates_of_models_are_admitted(name: str) -> None:
    ChatProgram(ORIGINAL[name].read_text(), {})
