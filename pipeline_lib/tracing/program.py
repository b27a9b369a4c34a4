"""A chat template that can be rendered: as plain text, and with the origin of each character."""

import functools
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jinja2 import Template

from pipeline_lib.tracing.environments import (
    PlainEnvironment,
    TracedEnvironment,
    compiled,
    guarded,
    switches_read,
)
from pipeline_lib.tracing.segments import Segments, TextSegment, text_of
from pipeline_lib.tracing.trace import RenderTrace, TemplateRefused, traced
from pipeline_lib.tracing.traced_values import (
    Keywords,
    Message,
    to_text,
    traced_keywords,
    traced_messages,
    traced_value,
    with_reasoning_names,
)

DEFAULT_DATE = datetime(2025, 1, 2)
"""What templates take for today, unless the recipe names another date."""

OF_THE_CONVERSATION = {
    *("messages", "tools", "documents", "add_generation_prompt"),
    *("range", "dict", "namespace", "raise_exception", "strftime_now", "loop"),
}
"""What a rendering sets beside the keywords."""


@dataclass(frozen=True)
class ChatInput:
    """What a template renders: messages and, where there are any, tools (JSON schemas)."""

    messages: list[Message]
    tools: list[Any] | None = None
    keywords: Keywords = field(default_factory=dict)

    def until(self, stop: int) -> "ChatInput":
        """The same with the first ``stop`` messages only."""
        return ChatInput(self.messages[:stop], self.tools, self.keywords)


@dataclass(frozen=True)
class Rendering:
    """A rendered conversation: its pieces, and what the template asked on the way."""

    segments: Segments
    trace: RenderTrace

    @property
    def text(self) -> str:
        """The rendered text."""
        return text_of(self.segments)


@functools.lru_cache(maxsize=256)
def _template(kind: type[PlainEnvironment], today: datetime, source: str) -> Template:
    """A template, compiled once: data sets, and tests, use the same ones again."""
    return compiled(kind(today), source)


_switches = functools.lru_cache(maxsize=64)(switches_read)


class ChatProgram:
    """A chat template and its fixed keywords, compiled twice. ``switches``: names it reads
    beside those of the conversation.

    ``TemplateRefused`` if the template uses what is not allowed.
    """

    def __init__(self, source: str, keywords: Keywords, today: datetime = DEFAULT_DATE) -> None:
        self.source, self.keywords = source, keywords
        self._traced = _template(TracedEnvironment, today, source)
        self._plain = _template(PlainEnvironment, today, source)
        self.switches = _switches(source) - OF_THE_CONVERSATION

    def plain(self, given: ChatInput, *, prompt: bool = False) -> str:
        """The text as transformers renders it; ``prompt``: with the generation prompt."""
        values = {
            "messages": with_reasoning_names(given.messages),
            "tools": given.tools,
            **self.keywords,
            **given.keywords,
        }
        with traced(RenderTrace()):
            return "".join(self._pieces(self._plain, values, prompt))

    def traced(self, given: ChatInput, *, prompt: bool = False) -> Rendering:
        """The text in pieces of one origin each."""
        with traced(RenderTrace()) as trace:
            tools = None if given.tools is None else traced_value(given.tools, ("tools",))
            values = {
                "messages": traced_messages(with_reasoning_names(given.messages)),
                "tools": tools,
                **traced_keywords(self.keywords | given.keywords),
            }
            found: list[TextSegment] = []
            for piece in self._pieces(self._traced, values, prompt):
                found.extend(to_text(piece).segments)
        return Rendering(tuple(s for s in found if s.text or not s.fixed), trace)

    def proven(self, given: ChatInput) -> Rendering:
        """The pieces, whose text is proven to be the plain text."""
        rendering = self.traced(given)
        if rendering.text != self.plain(given):
            raise TemplateRefused("traced text differs from the plain text")
        return rendering

    @staticmethod
    def _pieces(template: Any, values: Keywords, prompt: bool) -> list[Any]:
        values = {"documents": None, **values, "add_generation_prompt": prompt}
        context = template.new_context(values)
        return guarded(lambda: template.root_render_func(context))
