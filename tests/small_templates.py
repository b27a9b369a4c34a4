"""Small chat templates, each with one habit that some public template has."""

from chat_templates import assistant, user

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.model_template import ModelTemplate
from pipeline_lib.tracing.program import ChatInput

TOKENS = ControlTokens(frozenset(("<s>", "</s>", "<user>", "<bot>", "<think>", "</think>")))
TALK = [user("One?"), assistant("Yes"), user("Two?"), assistant("No")]
PROMPT = "{% if add_generation_prompt %}{{ '<bot>\n' }}{% endif %}"


def loop(turn: str, prompt: str = PROMPT) -> str:
    """A template; ``turn`` is what it writes for an assistant."""
    return (
        "{% for m in messages %}{% if m.role == 'user' %}{{ '<user>\n' + m.content + '</s>\n' }}"
        "{% else %}" + turn + "{% endif %}{% endfor %}" + prompt
    )


BY_NUMBER = (
    "{% for n in range(messages|length) %}{% if messages[n].role == 'user' %}"
    "{{ '<user>\n' + messages[n].content + '</s>\n' }}"
    "{% else %}{{ '<bot>\n' + messages[n].content + '</s>\n' }}{% endif %}{% endfor %}" + PROMPT
)
"""Its turns are told apart by no loop over the messages."""


def spans(source: str, messages: list[dict[str, object]] = TALK, **keywords: object) -> list[str]:
    template = ModelTemplate(source, TOKENS, {"bos_token": "<s>", "eos_token": "</s>", **keywords})
    found = template.derive(ChatInput(messages))
    turns = [n for n, m in enumerate(messages) if m["role"] == "assistant"]
    assert set(turns) == {s.message for s in found.spans} | set(found.context_only)
    return [found.text[s.start : s.stop] for s in found.spans]


def prompt(text: str) -> str:
    return "{% if add_generation_prompt %}{{ '" + text + "' }}{% endif %}"
