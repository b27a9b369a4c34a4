"""Masks that others wrote by hand: the characters that a patched template marks as generated."""

from typing import Any

from chat_templates import KEYWORDS
from transformers.utils import chat_template_utils

from pipeline_lib.templates.derived import Derivation
from pipeline_lib.tracing.program import DEFAULT_DATE, ChatInput
from pipeline_lib.tracing.traced_values import with_reasoning_names


def marked(source: str, given: ChatInput) -> tuple[str, set[int]] | None:
    """Text and trained characters by the hand-written marks; None where that template fails."""
    template = chat_template_utils._compile_jinja_template(source)  # no public way with a date
    template.globals["strftime_now"] = DEFAULT_DATE.strftime
    messages = with_reasoning_names(given.messages)
    keywords: dict[str, Any] = KEYWORDS | given.keywords
    try:
        text, spans = chat_template_utils._render_with_assistant_indices(
            template, messages, given.tools, None, False, **keywords
        )
    except Exception:  # whatever a template does with a shape that it does not know
        return None
    return text, {place for low, high in spans for place in range(low, high)}


def trained(found: Derivation) -> set[int]:
    """The characters that we derive to be generated."""
    return {place for span in found.spans for place in range(span.start, span.stop)}
