"""A traced string is the plain string, knows where each character comes from, and can be made
again from the strings of another conversation that gives the same answers."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.tracing.asked_text import plain
from pipeline_lib.tracing.expressions import Expression
from pipeline_lib.tracing.segments import MESSAGE, TextSegment, literal_segment, text_of
from pipeline_lib.tracing.text_methods import CHANGES, METHODS, PARTS, QUESTIONS
from pipeline_lib.tracing.trace import RenderTrace, TemplateRefused, traced
from pipeline_lib.tracing.traced_text import TracedText

WORDS = st.text(alphabet="ab \n<>|x", max_size=12)
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    **{name: lambda t, n=name: getattr(t, n)() for name in (*CHANGES, "strip", "lstrip", "rstrip")},
    **{f"{name} a": lambda t, n=name: getattr(t, n)("a") for name in ("strip", "lstrip", "rstrip")},
    **{f"{name} at x": lambda t, n=name: getattr(t, n)("x") for name in ("split", "rsplit")},
    **{f"{name} x": lambda t, n=name: getattr(t, n)("x") for name in ("partition", "rpartition")},
    **{f"{name} a": lambda t, n=name: getattr(t, n)("a") for name in QUESTIONS[:5]},
    **{f"{name}?": lambda t, n=name: getattr(t, n)() for name in QUESTIONS[5:]},
    "split": lambda t: t.split(),
    "split once": lambda t: t.split("x", 1),
    "rsplit once": lambda t: t.rsplit(None, 1),
    "lines": lambda t: t.splitlines(),
    "lines with ends": lambda t: t.splitlines(True),
    "replace": lambda t: t.replace("a", "bb"),
    "remove prefix": lambda t: t.removeprefix("a"),
    "remove suffix": lambda t: t.removesuffix("a"),
    "front": lambda t: t[:3],
    "back": lambda t: t[-2:],
    "characters": lambda t: list(t),
    "length": lambda t: len(t),
    "contains": lambda t: "ab" in t,
    "equal": lambda t: t == "ab",
    "less": lambda t: t < "ab",
    "truth": bool,
    "sum": lambda t: t + "!" + t,
}


def data(text: str, name: str) -> TextSegment:
    path = ("messages", 0, name)
    return TextSegment(text, MESSAGE, path, 0, Expression("source", (path,)))


def origins(text: Any) -> list[tuple[str, str]]:
    return [(c, s.origin) for s in text.segments for c in s.text]


def test_every_allowed_method_is_tried_here() -> None:
    source = " ".join(OPERATIONS)
    other = {
        "startswith",
        "endswith",
        "removeprefix",
        "removesuffix",
        "splitlines",
        "join",
        "format",
    }
    assert {m for m in METHODS if m not in source} <= other | set(CHANGES) | set(PARTS)


@pytest.mark.parametrize("name", OPERATIONS)
@given(first=WORDS, middle=WORDS, last=WORDS)
def test_an_operation_gives_what_it_gives_for_the_plain_string(
    name: str, first: str, middle: str, last: str
) -> None:
    """For a string of the conversation, of the template, and of both."""
    with traced(RenderTrace()):
        for segments in (
            (data(first, "a"),),
            (literal_segment(first),),
            (data(first, "a"), literal_segment(middle), data(last, "b")),
        ):
            text = TracedText(segments)
            made = OPERATIONS[name](text)
            assert plain(made) == _lists(OPERATIONS[name](text.plain))


def _lists(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@given(first=WORDS, middle=WORDS, last=WORDS)
def test_no_character_of_the_conversation_becomes_text_of_the_template(
    first: str, middle: str, last: str
) -> None:
    with traced(RenderTrace()):
        text = TracedText((data(first.upper(), "a"), literal_segment(middle.lower())))
        parts = [text.strip(), text[1:], *text.split("x"), text + text, *text.partition("|")]
        for part in parts:
            known = origins(text)
            assert all(pair in known for pair in origins(part))
            assert text_of(part.segments) == part.plain  # type: ignore[attr-defined]


@pytest.mark.parametrize("ask", [lambda a, b: a == b, lambda a, b: b in a, lambda a, b: a > b])
@pytest.mark.parametrize("asked", ["ours of data", "data of ours", "ours of ours"])
def test_a_question_is_recorded_unless_only_text_of_the_template_is_in_it(
    ask: Callable[[Any, Any], bool], asked: str
) -> None:
    with traced(RenderTrace()) as trace:
        texts = {"ours": literal_segment("yes"), "data": data("yes", "content")}
        ask(*(TracedText((texts[side],)) for side in asked.split(" of ")))
    assert len(trace.guards) == ("data" in asked)


def test_a_string_used_as_a_key_counts_by_value() -> None:
    with traced(RenderTrace()) as trace:
        assert {"yes": 1}.get(TracedText((data("yes", "a"),))) == 1
    assert [g.answer for g in trace.guards.values() if g.question == "value"] == ["yes"]


@pytest.mark.parametrize(
    "operation",
    [
        lambda t: t % (),
        lambda t: t * 3,
        lambda t: t[::2],
        lambda t: t.startswith("a", 1),
        lambda t: t.replace("a", t),
    ],
    ids=["formatting", "repeated", "a step", "bounds", "replaced by data"],
)
def test_what_would_lose_an_origin_is_refused(operation: Callable[[Any], Any]) -> None:
    with traced(RenderTrace()), pytest.raises(TemplateRefused):
        operation(TracedText((data("abc", "a"),)))


def test_a_format_of_the_template_keeps_the_origin_of_what_is_put_in() -> None:
    with traced(RenderTrace()):
        form = TracedText((literal_segment("<{}|{name}|{1}>"),))
        made = form.format(TracedText((data("a", "x"),)), 7, name=TracedText((data("b", "y"),)))
        assert made.plain == "<a|b|7>"
        assert "".join(c for c, origin in origins(made) if origin == MESSAGE) == "ab"
        for hostile in ("{:>9}", "{0.__class__}", "{!r}", "{0[0]}"):
            with pytest.raises(TemplateRefused):
                TracedText((literal_segment(hostile),)).format("a")
