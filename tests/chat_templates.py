"""Chat templates of other people's models, and conversations of many shapes to render with them.

The templates come from a package of trainers that ships them; nothing of it is imported.
"""

import importlib.util
import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.derived import Declared, Derivation
from pipeline_lib.templates.families import declared_for
from pipeline_lib.templates.model_template import ModelTemplate
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused

MARKS = re.compile(r"\{%-?\s*generation")
_SPEC = importlib.util.find_spec("trl")
if _SPEC is None or _SPEC.origin is None:
    raise ImportError("trl is missing; install tests/requirements.txt")
FOLDER = Path(_SPEC.origin).parent / "chat_templates"
PATCHED = {p.stem.removesuffix("_training"): p for p in sorted(FOLDER.glob("*_training.jinja"))}
ORIGINAL = {p.stem: p for p in sorted(FOLDER.glob("*.jinja")) if p not in PATCHED.values()}
PATCHED |= {n: p for n, p in ORIGINAL.items() if MARKS.search(p.read_text())}
"""Templates that mark what is trained, by hand. Some families ship them so."""

KEYWORDS = {"bos_token": "<bos>", "eos_token": "<|eos|>"}
LOOKS_LIKE_CONTROL = re.compile(
    r"<\|[^<>|\s][^<>|]*\|>|<｜[^<>｜]+｜>|</?[a-zA-Z_][\w.:-]*>|\[/?[A-Z_]{3,}\]|<\w+\|>|<\|\w+>"
    r"|<\|\"\|>|<\w+\|\w*>"
)
"""What a template writes that has the look of a control token: tests have few real tokenizers."""
IN_PARTS = ("llava_next", "idefics3", "smolvlm")
"""Families whose contents are lists of parts."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Its name"}},
            "required": ["city"],
        },
    },
}


def control_of(source: str) -> ControlTokens:
    """The control tokens that a template's source shows."""
    return ControlTokens(frozenset(LOOKS_LIKE_CONTROL.findall(source)) | {"<bos>", "<|eos|>"})


@cache
def model(name: str, *, declared: bool = True, patched: bool = False) -> ModelTemplate:
    """The original template of a family, or the one with marks written by hand."""
    source = (PATCHED if patched else ORIGINAL)[name].read_text()
    known = declared_for(source)[1] if declared else Declared()
    return ModelTemplate(source, control_of(source), KEYWORDS, known)


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def call(arguments: Any, number: int = 0) -> dict[str, Any]:
    function = {"name": "weather", "arguments": arguments}
    return {"type": "function", "id": f"call{number}", "function": function}


def result(content: str, number: int = 0) -> dict[str, Any]:
    return {"role": "tool", "content": content, "name": "weather", "tool_call_id": f"call{number}"}


def _plain_shapes(marks: str) -> dict[str, list[dict[str, Any]]]:
    return {
        "one turn": [user("Hello there"), assistant("Good day!")],
        "three turns": [
            *(user("One?"), assistant("Yes"), user("Two?")),
            *(assistant("Yes, two."), user("Three?"), assistant("No")),
        ],
        "a system turn": [
            {"role": "system", "content": "Be short."}, user("Hello"), assistant("Hi"),
        ],
        "an empty answer": [user("Hello"), assistant("")],
        "white space": [user("  a\n"), assistant("\n\n  b \n\n"), user("\tc "), assistant(" d\n")],
        "control text": [
            user(f"a {marks} b"), assistant(f"c {marks} d"), user(marks), assistant(marks),
        ],
        "scripts": [user("Zürich 世界 \u200b🙂 e\u0301"), assistant("مرحبا 👩‍👩‍👧 \u2028 x")],
        "two answers": [user("Hello"), assistant("One"), assistant("Two")],
        "a question at the end": [user("Hello"), assistant("Hi"), user("And?")],
        "a question like a tool's": [user("<tool_response>x</tool_response>"), assistant("y")],
    }  # fmt: skip


def _reasoning_shapes() -> dict[str, list[dict[str, Any]]]:
    return {
        "reasoning": [user("2+2?"), assistant("4", reasoning_content="two and two")],
        "earlier reasoning": [
            *(user("2+2?"), assistant("4", reasoning_content="two and two")),
            *(user("3+3?"), assistant("6", reasoning_content="thrice two")),
        ],
        "a think block": [user("2+2?"), assistant("<think>\nhm, two\n</think>\n\n4")],
        "earlier think blocks": [
            *(user("2+2?"), assistant("<think>\nhm\n</think>\n\n4")),
            *(user("3+3?"), assistant("<think>\nhmm\n</think>\n\n6")),
        ],
    }


def _tool_shapes() -> dict[str, list[dict[str, Any]]]:
    paris, rome = {"city": "Paris"}, {"city": "Rome"}
    without = {"role": "assistant", "tool_calls": [call(paris)]}
    both = [call(paris), call(rome, 1)]
    return {
        "a tool call": [
            user("Sun?"), assistant("", tool_calls=[call({"city": "Paris", "days": 2})]),
            result("sunny"), assistant("It is sunny."),
        ],
        "a call without content": [user("Sun?"), without, result("sunny"), assistant("Yes.")],
        "arguments as text": [
            user("Sun?"), assistant("", tool_calls=[call('{"city": "Paris"}')]), result("sunny"),
            assistant("Yes."),
        ],
        "two calls": [
            user("Sun?"), assistant("Let me see.", tool_calls=both), result("sunny"),
            result("rain", 1), assistant("Both."), user("Thanks"), assistant("Welcome"),
        ],
        "reasoning and a call": [
            user("Sun?"), assistant("", reasoning_content="ask", tool_calls=[call(paris)]),
            result("sunny"), assistant("Yes.", reasoning_content="got it"),
        ],
    }  # fmt: skip


def shapes(source: str) -> dict[str, ChatInput]:
    """Conversations of many shapes; some hold the control tokens of the template as text."""
    marks = " ".join(sorted(set(LOOKS_LIKE_CONTROL.findall(source)))[:12])
    plain = {name: ChatInput(m) for name, m in _plain_shapes(marks).items()}
    tools = {name: ChatInput(m, [WEATHER]) for name, m in _tool_shapes().items()}
    reasoning = {name: ChatInput(m) for name, m in _reasoning_shapes().items()}
    switched = {
        f"thinking {on}": replace(plain["three turns"], keywords={"enable_thinking": on})
        for on in (True, False)
    }
    return plain | reasoning | tools | switched


def in_parts(given: ChatInput) -> ChatInput:
    """The same conversation with each content as a list of one text."""
    messages = [
        m | {"content": [{"type": "text", "text": m["content"]}]} if "content" in m else m
        for m in given.messages
    ]
    return replace(given, messages=messages)


def header(template: ModelTemplate, *, parts: bool) -> str:
    """What a template writes in front of an answer."""
    asked = ChatInput([user("x")])
    asked = in_parts(asked) if parts else asked
    try:
        with_prompt, without = (template.program.plain(asked, prompt=p) for p in (True, False))
    except TemplateRefused:
        return ""
    return with_prompt.removeprefix(without)


@cache
def shapes_for(name: str) -> dict[str, ChatInput]:
    """The shapes as a family takes them; one forges the header of its answers."""
    found = shapes(ORIGINAL[name].read_text())
    mark = header(model(name), parts=name in IN_PARTS)
    found["a forged header"] = ChatInput(
        [user(f"Hi {mark}no"), assistant(f"{mark}Hi {mark}"), user("q"), assistant("z")]
    )
    return {k: in_parts(v) for k, v in found.items()} if name in IN_PARTS else found


@cache
def derivation(name: str, shape: str) -> Derivation | None:
    """A family's original template under a shape; None where it is refused."""
    try:
        return model(name).derive(shapes_for(name)[shape])
    except TemplateRefused:
        return None


FRAGMENTS = (
    "", " ", "\n", "\n\n", "hello", "Hello world", "<think>", "</think>", "<think>\n", "\t",
    "\n</think>\n\n", "<tool_response>", "</tool_response>", "<|im_end|>", "<|channel|>", "世界",
    "<channel|>", "<|channel>", "🙂", " x ", "assistant", '{"a": 1}', "</s>", "[INST]", "/think",
    "<｜Assistant｜>", "/no_think", "<|end|>", "<turn|>", "'", '"', "\\", "{{ x }}", "{% if %}",
)  # fmt: skip


def changed(value: Any, chance: random.Random) -> Any:
    """The same shape with other strings, made of fragments that templates look for."""
    if isinstance(value, str):
        return "".join(chance.choice(FRAGMENTS) for _ in range(chance.choice((0, 1, 1, 2, 3, 5))))
    if isinstance(value, list):
        return [changed(inner, chance) for inner in value]
    if isinstance(value, dict):
        fixed = ("role", "type", "id", "tool_call_id", "name")
        return {k: v if k in fixed else changed(v, chance) for k, v in value.items()}
    return value
