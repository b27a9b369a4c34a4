"""What a template reads is found by asking it; nothing of a turn is lost on the way to it."""

import pytest
from chat_templates import ORIGINAL, model
from chat_world import turns

from pipeline_lib.records import Turn
from pipeline_lib.templates.turn_messages import (
    END_OF_THINK,
    THINK,
    MessageForm,
    form_of,
    messages_of,
    split_thought,
)
from pipeline_lib.tracing.program import ChatProgram
from pipeline_lib.tracing.trace import TemplateRefused

CALL = {"type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": "ü"}}}


def calling(arguments: object) -> Turn:
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", MessageForm()),
        (
            "{% for m in messages %}{{ m.reasoning_content }}{{ m.content }}{% endfor %}",
            MessageForm(reasoning_field=True),
        ),
        (
            "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}",
            MessageForm(parts=True),
        ),
        (
            "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
            "{{ c.function.name + c.function.arguments }}{% endfor %}{% endfor %}",
            MessageForm(arguments_text=True),
        ),
        (
            "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
            "{% if c.id | length == 9 and tools[0].type == 'function' %}"
            "{% if tools[0].function.parameters.properties %}"
            "{{ c.function.name + c.function.arguments }}"
            "{% endif %}{% endif %}{% endfor %}{% endfor %}",
            MessageForm(arguments_text=True),
        ),
        (
            "{% for m in messages %}{% if m.content is none %}{{ m.tool_calls | tojson }}"
            "{% else %}{{ m.content }}{% endif %}{% endfor %}",
            MessageForm(no_content=True),
        ),
    ],
)
def test_the_form_is_the_one_in_which_all_is_shown(source: str, expected: MessageForm) -> None:
    assert form_of(ChatProgram(source, {})) == expected


def test_the_families_differ_in_what_they_read() -> None:
    forms = {name: form_of(model(name).program) for name in ORIGINAL}
    assert forms["qwen3"].reasoning_field
    assert not forms["llama3"].reasoning_field
    assert forms["llava_next"].parts
    assert forms["deepseekv3"].arguments_text


def test_reasoning_in_front_of_an_answer_is_told_from_it_and_nothing_else_is() -> None:
    stored = f"{THINK}why{END_OF_THINK}answer\n"
    assert split_thought(stored) == ("why", "answer\n")
    for content in ("answer", "<think>why</think>answer", f"x{stored}", f"{THINK}open"):
        assert split_thought(content) == (None, content)


def test_a_message_holds_all_of_its_turn() -> None:
    tool = Turn(role="tool", content="sunny", name="f", tool_call_id="1")
    talk = [*turns("q"), calling({"b": 1, "a": "ü"}), tool]
    asked, called, told = messages_of(talk, MessageForm())
    assert asked == {"role": "user", "content": "q"}
    assert called["tool_calls"][0]["function"]["arguments"] == {"b": 1, "a": "ü"}
    assert told == {"role": "tool", "content": "sunny", "name": "f", "tool_call_id": "1"}


def test_reasoning_gets_its_field_where_the_template_reads_one() -> None:
    (stored,) = turns(f"{THINK}why{END_OF_THINK}answer", first="assistant")
    for field, expected in (
        (True, {"role": "assistant", "content": "answer", "reasoning_content": "why"}),
        (False, {**stored}),
    ):
        assert messages_of([stored], MessageForm(reasoning_field=field)) == [expected]


def test_contents_are_put_in_parts_where_the_template_reads_parts() -> None:
    asked, called = messages_of(
        [*turns("q"), calling({})], MessageForm(parts=True, no_content=True)
    )
    assert asked["content"] == [{"type": "text", "text": "q"}]
    assert called["content"] is None


@pytest.mark.parametrize("given", ['{"b": 1, "a": "ü"}', {"b": 1, "a": "ü"}])
def test_arguments_arrive_in_the_form_that_the_template_reads(given: object) -> None:
    for text, expected in ((False, {"b": 1, "a": "ü"}), (True, '{"b": 1, "a": "ü"}')):
        (message,) = messages_of([calling(given)], MessageForm(arguments_text=text))
        assert message["tool_calls"][0]["function"]["arguments"] == expected


@pytest.mark.parametrize("given", ["{", "[1]", "3"])
def test_arguments_that_are_no_object_are_refused(given: str) -> None:
    with pytest.raises(TemplateRefused, match="not a JSON object"):
        messages_of([calling(given)], MessageForm())
    assert messages_of([calling("")], MessageForm())[0]["tool_calls"]
