"""What a model must generate in a rendered conversation, and how that is known.

Nothing is guessed. A turn starts where the text that the generation prompt adds has ended; where
the turn does not begin with that text, or with a variant that is declared, it is context only.
"""

from dataclasses import replace

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.derived import Declared, Derivation, Run, TrainedSpan, runs_of
from pipeline_lib.templates.generation_prompt import GenerationPrompt, PromptReader
from pipeline_lib.templates.used_fields import unused_fields
from pipeline_lib.tracing.program import ChatInput, ChatProgram, Rendering
from pipeline_lib.tracing.segments import (
    ORIGIN_UNKNOWN,
    expression_of,
    text_of,
)
from pipeline_lib.tracing.trace import TemplateRefused, traced
from pipeline_lib.tracing.traced_text import TracedText

ASSISTANT = "assistant"


class Deriver:
    """Derives what the model must generate, for one template.

    ``control``: the control tokens. ``declared``: what is known of the family.
    """

    def __init__(self, program: ChatProgram, control: ControlTokens, declared: Declared) -> None:
        self.program, self.control, self.declared = program, control, declared
        self.prompts = PromptReader(program)

    def derive(self, given: ChatInput) -> Derivation:
        """Spans and notes of a conversation; ``TemplateRefused`` if something is not proven."""
        _check_roles(self.control, given)
        return _Deriving(self, given).result()


def _check_roles(control: ControlTokens, given: ChatInput) -> None:
    for message in given.messages:
        role = message.get("role")
        if not isinstance(role, str) or control.pattern.search(role):
            raise TemplateRefused("a role that is not a plain word")


class _Deriving:
    """The work on one conversation."""

    def __init__(self, rules: Deriver, given: ChatInput) -> None:
        self._program, self._prompts = rules.program, rules.prompts
        self._control, self._declared = rules.control, rules.declared
        self._given = given
        rendering = rules.program.proven(given)
        self._found = Derivation(rendering, traces=[rendering.trace])
        self._runs = runs_of(rendering.segments)

    def result(self) -> Derivation:
        self._check_unknown()
        for place, run in enumerate(self._runs):
            if run.owner is not None and self._role(run.owner) == ASSISTANT:
                self._take(place, run, run.owner)
        self._find_rewritten()
        self._check_prefixes()
        self._find_unused()
        return self._found

    def _role(self, message: int) -> str:
        return str(self._given.messages[message]["role"])

    def _check_unknown(self) -> None:
        for segment in self._found.rendering.segments:
            if segment.origin == ORIGIN_UNKNOWN and self._control.pattern.search(segment.text):
                raise TemplateRefused("control token text of unknown origin")

    # One assistant turn

    def _take(self, place: int, run: Run, message: int) -> None:
        for segment in run.segments:
            path = segment.path
            foreign = path is not None and path[0] == "messages" and path[1] != message
            if foreign and not segment.trusted:
                raise TemplateRefused("text of another message inside an assistant turn")
        first = not any(earlier.owner == message for earlier in self._runs[:place])
        start = self._start(run, message) if first else run.start
        if message in self._found.context_only or start is None:
            return
        stop = self._stop(place, run, start)
        if stop > start:
            self._found.spans.append(TrainedSpan(start, stop, run.stop, message))

    def _start(self, run: Run, message: int) -> int | None:
        prompt = self._prompts.before(message, self._given, self._found.traces)
        if prompt.guessed:
            self._found.notes.add("generation prompt taken from a short conversation")
        skipped = self._skipped(run, message, prompt)
        if skipped is None:
            self._found.context_only[message] = "turn does not follow the generation prompt"
            return None
        return run.start + skipped

    def _skipped(self, run: Run, message: int, prompt: GenerationPrompt) -> int | None:
        """How many characters at the start of the turn the model does not generate."""
        lead = run.lead()
        for text in prompt.texts:
            if text and lead.startswith(text):
                return len(text)
        if self._repeats(run, message, prompt):
            return len(prompt.text)
        return self._declared_skip(lead, prompt.text)

    def _declared_skip(self, lead: str, prompt: str) -> int | None:
        shorter = [
            prompt[: -len(o)]
            for o in self._declared.omissions
            if o != prompt and prompt.endswith(o)
        ]
        variants = [v for v in self._prompts.variants(self._given) if v]
        for note, texts in (
            ("turn leaves out a declared part of the generation prompt", shorter),
            ("turn follows the generation prompt of other switches", variants),
        ):
            fitting = [len(t) for t in texts if t and lead.startswith(t)]
            if fitting:
                self._found.notes.add(note)
                return max(fitting)
        return self._without_prompt(lead, bool(variants)) if not prompt else None

    def _without_prompt(self, lead: str, elsewhere: bool) -> int:
        """The template adds nothing here: then the turn must have no header either."""
        if elsewhere or not self._control.pattern.search(lead):
            return 0
        raise TemplateRefused("template has no generation prompt, so a header can not be told")

    def _repeats(self, run: Run, message: int, prompt: GenerationPrompt) -> bool:
        """Whether the turn's own text supplies the end of the generation prompt."""
        lead, text = run.lead(), prompt.text
        own = all(s.trusted or (s.path or ())[:2] == ("messages", message) for s in run.segments)
        if not (text and own and text.startswith(lead) and self._begins(run, text)):
            return False
        ends = {m.start() for m in self._control.pattern.finditer(text)} | prompt.boundaries
        if not any(0 < end <= len(lead) for end in ends):
            return False
        self._found.notes.add("content repeats the end of the generation prompt")
        self._found.give_up_compiling("content repeats the end of the generation prompt")
        return True

    def _begins(self, run: Run, text: str) -> bool:
        """Whether the run begins with a text: a question that a skeleton must ask, too."""
        with traced(self._found.rendering.trace):
            return bool(TracedText(run.segments).startswith(text))

    def _stop(self, place: int, run: Run, start: int) -> int:
        """The end of the last control token that ends the turn's text, else of the text."""
        tail = max(run.stop - run.tail(), start)
        ends = [m.end() for m in self._control.pattern.finditer(self._found.text[tail : run.stop])]
        if ends:
            return tail + ends[-1]
        if any(later.owner == run.owner for later in self._runs[place + 1 :]):
            return run.stop
        return self._stop_behind(place, run)

    def _stop_behind(self, place: int, run: Run) -> int:
        following = self._runs[place + 1].lead() if place + 1 < len(self._runs) else ""
        token = self._control.pattern.match(following)
        if token and token.group() in self._declared.stops:
            return run.stop + token.end()
        self._found.notes.add("no end-of-turn token")
        return run.stop

    # The whole conversation

    def _turns(self) -> list[int]:
        return sorted(
            {
                r.owner
                for r in self._runs
                if r.owner is not None and self._role(r.owner) == ASSISTANT
            }
        )

    def _find_rewritten(self) -> None:
        """Turns that are rendered otherwise when they are the last of the conversation."""
        for message in self._turns():
            if message == len(self._given.messages) - 1:
                continue
            try:
                alone = self._program.traced(self._given.until(message + 1))
            except TemplateRefused:
                self._found.notes.add("turn can not be rendered as the last one")
                continue
            self._found.traces.append(alone.trace)
            self._compare(message, alone)

    def _compare(self, message: int, alone: Rendering) -> None:
        here, last = (
            [s for s in r.segments if s.owner == message] for r in (self._found.rendering, alone)
        )
        differs = text_of(here) != text_of(last)
        if differs != (expression_of(list(here)) != expression_of(list(last))):
            self._found.give_up_compiling("form in the history depends on the content")
        if differs:
            self._found.rewritten.append(message)

    def _check_prefixes(self) -> None:
        """A second proof, without traces: where the rendering of the prompt is a prefix of the
        text, nothing of it is trained."""
        for message in self._turns():
            spans = [s for s in self._found.spans if s.message == message]
            before = self._plain_before(message) if spans else None
            if before is None or before == spans[0].start:
                continue
            self._found.notes.add("the rendered prompt does not end where the turn starts")
            if before > spans[0].start:
                self._move_start(spans[0], before)

    def _plain_before(self, message: int) -> int | None:
        """The length of the plain rendering of the prompt, if that is a prefix of the text."""
        try:
            before = self._program.plain(self._given.until(message), prompt=True)
        except TemplateRefused:
            return None
        return len(before) if self._found.text.startswith(before) else None

    def _move_start(self, span: TrainedSpan, start: int) -> None:
        """Only inside the template's own text at the front of the turn; else it is context."""
        run = next(r for r in self._runs if r.owner == span.message)
        inside = run.start <= start <= run.start + len(run.lead()) and start < span.stop
        place = self._found.spans.index(span)
        if inside:
            self._found.spans[place] = replace(span, start=start)
        else:
            self._found.give_up_compiling("the prompt's rendering ends elsewhere")
            self._found.spans = [s for s in self._found.spans if s.message != span.message]
            self._found.context_only[span.message] = "the prompt's rendering ends elsewhere"

    def _find_unused(self) -> None:
        segments = self._found.rendering.segments
        self._found.unused = unused_fields(self._given.messages, segments, self._control)
        shown = {s.path[1] for s in segments if s.path and s.path[0] == "messages"}
        turns = set(self._turns())
        for message, fields in enumerate(self._given.messages):
            if fields.get("role") == ASSISTANT and message not in turns | shown:
                self._found.unused.append((message, "turn"))
