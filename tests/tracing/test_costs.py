"""A template ends after a bounded amount of work, also where no loop of its own does it."""

import pytest
from chat_templates import assistant, user

from pipeline_lib.tracing import trace
from pipeline_lib.tracing.program import ChatInput, ChatProgram
from pipeline_lib.tracing.trace import MOST_NESTED, TemplateRefused

OFTEN = "{% set l = range(99999)|list %}{% for i in range(99999) %}{} {% endfor %}"
TEXT = "{% set l = '" + "a" * 99_999 + "' %}{% for i in range(99999) %}{} {% endfor %}"
NESTED = (
    "{% set ns = namespace(d=[], e=[]) %}{% for i in range(99) %}{% set ns.d = [ns.d, ns.d] %}"
    "{% set ns.e = [ns.e, ns.e] %}{% endfor %}{}"
)
STEPS = (
    "{% set ns = namespace(x=messages[0].content) %}{% for i in range(5000) %}"
    "{% set ns.x = {} %}{% endfor %}{{ ns.x }}"
)
HOW = ("ns.x.strip()", "ns.x.replace('a', 'b').upper()", "ns.x[0:]", "ns.x.split('/')[0]")
WORK = {
    "a loop that leaves all out": OFTEN.replace("{}", "{% for a in l if a < 0 %}{% endfor %}"),
    "a sum": OFTEN.replace("{}", "{{ l|sum }}"),
    "a search of a list": OFTEN.replace("{}", "{{ -1 in l }}"),
    "lists that are compared": OFTEN.replace("{}", "{{ l == l + [1] }}"),
    "a chain of filters": OFTEN.replace("{}", "{{ l|select|reject|select|first }}"),
    "slices": OFTEN.replace("{}", "{% set z = l[1:] %}"),
    "arguments": "{% macro m() %}{{ varargs|length }}{% endmacro %}"
    + OFTEN.replace("{}", "{{ m(*l) }}"),
    "a long body": "{% for i in range(99999) %}{% if i < 0 %}"
    + "{% set z = [1, 2, 3] %}" * 999
    + "{% endif %}{% endfor %}",
    "a count": TEXT.replace("{}", "{{ l.count('a') }}"),
    "a search of a text": TEXT.replace("{}", "{{ 'b' in l }}"),
    "a trim": TEXT.replace("{}", "{% set z = l|trim('bcdefghijklmna') %}"),
    "JSON of a list that doubles": NESTED.replace("{}", "{{ ns.d|tojson }}"),
    "text of a list that doubles": NESTED.replace("{}", "{{ ns.d }}"),
    "lists that double are compared": NESTED.replace("{}", "{{ ns.d == ns.e }}"),
    "a number that doubles": "{% set ns = namespace(x=3) %}{% for i in range(99) %}"
    "{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "rounding": "{{ 10|round(-999999999) }}",
    "wide JSON": "{{ [1]|tojson(indent=999999999) }}",
    "a sum of lists": "{{ [[1]]|sum(start=[]) }}",
    **{f"a text of many steps, {how}": STEPS.replace("{}", how) for how in HOW},
}


def test_a_text_may_be_computed_in_some_steps() -> None:
    source = "{{ messages[0].content" + ".strip()" * MOST_NESTED + " }}"
    asked = ChatInput([user(" Hello "), assistant("Hi")])
    assert ChatProgram(source, {}).proven(asked).text == "Hello"


@pytest.mark.parametrize("name", WORK)
def test_work_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MOST_READ", "MOST_CHARACTERS", "MOST_STEPS"):  # sooner, for the time of the test
        monkeypatch.setattr(trace, limit, getattr(trace, limit) // 16)
    program = ChatProgram(WORK[name], {})
    with pytest.raises(
        TemplateRefused, match=r"template makes|template reads|operation|filter|steps"
    ):
        program.proven(ChatInput([user("Hello"), assistant("Hi")]))


@pytest.mark.parametrize("source", ["{% for a in [1] %}" * 60 + "{% endfor %}" * 60])
def test_what_python_can_not_read_is_refused(source: str) -> None:
    with pytest.raises(TemplateRefused, match="can not be read"):
        ChatProgram(source, {})


def test_a_long_conversation_is_not_too_much_work() -> None:
    source = (
        "{% set first = messages|selectattr('role', 'equalto', 'user')|list|first %}"
        "{% for m in messages %}{% if '<think>' in m.content %}{{ m.content.split('<think>')[0] }}"
        "{% elif m.content != first.content %}{{ m.content|trim }}{% endif %}{% endfor %}"
    )
    talk = [user("long " * 400), assistant("words " * 400)] * 500
    assert len(ChatProgram(source, {}).proven(ChatInput(talk)).text) > 1_000_000
