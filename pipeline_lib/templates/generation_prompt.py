"""The generation prompt: what a template adds to a conversation that the model is to continue."""

from dataclasses import dataclass

from pipeline_lib.tracing.program import ChatInput, ChatProgram
from pipeline_lib.tracing.segments import MESSAGE, Segments, TextSegment, text_of
from pipeline_lib.tracing.trace import RenderTrace, TemplateRefused
from pipeline_lib.tracing.traced_values import Keywords

MOST_SWITCHES = 16
"""Names that a template reads and nobody sets are switches; so many are tried."""


@dataclass(frozen=True)
class GenerationPrompt:
    """``text``: what is written with the prompt on and not with it off.

    ``with_tail``: the text together with fixed text before it that belongs to no message.
    ``boundaries``: where pieces of ``text`` begin. ``rendered``: the whole rendering with it; none
    if ``guessed``: taken from another conversation.
    """

    text: str
    with_tail: str
    boundaries: frozenset[int]
    rendered: Segments = ()
    guessed: bool = False

    @property
    def texts(self) -> tuple[str, str]:
        """What a turn may begin with, the longer form first."""
        return self.with_tail, self.text


def _tail(segments: Segments) -> list[TextSegment]:
    tail: list[TextSegment] = []
    for segment in reversed(segments):
        if segment.owner is not None or segment.origin == MESSAGE:
            break
        tail.append(segment)
    return tail[::-1]


def _added(on: Segments, off: Segments) -> list[TextSegment]:
    shared = 0
    while shared < min(len(on), len(off)) and on[shared][:3] == off[shared][:3]:
        shared += 1
    return list(on[shared:])


def _starts(segments: list[TextSegment]) -> frozenset[int]:
    return frozenset(len(text_of(segments[:n])) for n in range(len(segments)))


class PromptReader:
    """Reads the generation prompts of a template."""

    def __init__(self, program: ChatProgram) -> None:
        self._program = program
        self._variants: dict[tuple[str, bool], list[str]] = {}

    def before(self, message: int, given: ChatInput, traces: list[RenderTrace]) -> GenerationPrompt:
        """The prompt for the turn ``message``; that of a short conversation if there is none.

        ``traces`` collects the renderings: what they asked decides the prompt.
        """
        found = self._read(given.until(message), traces) if message else None
        if found is not None:
            return found
        text = next(iter(self.variants(given)), "")
        return GenerationPrompt(text, text, frozenset(), guessed=True)

    def rendered(self, message: int, given: ChatInput) -> Segments:
        """What stands before the turn ``message``, with the prompt; ``TemplateRefused`` if the
        template can not be rendered so."""
        return self._program.traced(given.until(message), prompt=True).segments

    def plain(self, message: int, given: ChatInput) -> str:
        """The same as plain text, to be asked behind ``rendered``, whose work is bounded."""
        return self._program.plain(given.until(message), prompt=True)

    def variants(self, given: ChatInput) -> list[str]:
        """The prompts that the template writes under other switches, for a short conversation of
        the same keywords."""
        parts = any(isinstance(m.get("content"), list) for m in given.messages)
        asked = repr(sorted(given.keywords.items())), parts
        if asked not in self._variants:
            content = [{"type": "text", "text": "x"}] if parts else "x"
            probes = [
                self._read(ChatInput([{"role": "user", "content": content}], None, switched), [])
                for switched in (given.keywords | switch for switch in self._switches(given))
            ]
            self._variants[asked] = list(dict.fromkeys(p.text for p in probes if p is not None))
        return self._variants[asked]

    def _switches(self, given: ChatInput) -> list[Keywords]:
        """Nothing, and each switch of the template on and off."""
        free = sorted(self._program.switches - set(self._program.keywords) - set(given.keywords))
        return [{}, *({name: on} for name in free[:MOST_SWITCHES] for on in (True, False))]

    def _read(self, given: ChatInput, traces: list[RenderTrace]) -> GenerationPrompt | None:
        try:
            on = self._program.traced(given, prompt=True)
            off = self._program.traced(given)
        except TemplateRefused:
            return None
        traces += [on.trace, off.trace]
        added = _added(on.segments, off.segments)
        if not all(segment.trusted for segment in added):
            return None
        tail = text_of(_tail(on.segments))
        return GenerationPrompt(text_of(added), tail, _starts(added), on.segments)
