"""What a model must generate in a rendered conversation, and how that is known.

Nothing is guessed. A turn starts where the text that the generation prompt adds has ended; where
the turn does not begin with that text, or with a variant that is declared, it is context only.
"""

from dataclasses import replace

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.derived import Declared, Derivation, TrainedSpan, runs_of
from pipeline_lib.templates.foreign_text import (
    ORDER,
    is_in_order,
    refuse_foreign,
    refuse_openers,
)
from pipeline_lib.templates.generation_prompt import PromptReader
from pipeline_lib.templates.turn_ends import TurnEnds
from pipeline_lib.templates.turn_starts import OTHER_WAY, TurnStarts
from pipeline_lib.templates.used_fields import SAID, is_said_by, unused_fields
from pipeline_lib.tracing.program import ChatInput, ChatProgram, Rendering
from pipeline_lib.tracing.segments import (
    ORIGIN_UNKNOWN,
    expression_of,
    places_of,
    same_beginning,
)
from pipeline_lib.tracing.trace import TemplateRefused, traced
from pipeline_lib.tracing.traced_text import TracedText
from pipeline_lib.tracing.traced_values import traced_value, with_reasoning_names

ASSISTANT = "assistant"
NOT_FOLLOWED = "turn does not follow the generation prompt"
NOT_WRITTEN = "the template does not write what the turn says"


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
        self._places = list(places_of(rendering.segments))
        known = self._control, self._declared
        self._starts = TurnStarts(self._prompts, known, given, self._found)
        self._ends = TurnEnds(known, self._bos(), self._leads(), self._found)

    def result(self) -> Derivation:
        self._check_unknown()
        turns = [n for n in range(len(self._given.messages)) if self._role(n) == ASSISTANT]
        for message in turns:
            if not (self._is_in_runs(message) and self._take_runs(message)):
                self._take_by_prompts(message)
            self._drop_unsaid(message)
        self._find_rewritten()
        self._check_prefixes()
        self._check_borders()
        self._find_unused()
        return self._found

    def _role(self, message: int) -> str:
        return str(self._given.messages[message]["role"])

    def _bos(self) -> str | None:
        keywords = self._program.keywords | self._given.keywords
        bos = keywords.get("bos_token")
        return bos if isinstance(bos, str) and bos != keywords.get("eos_token") else None

    def _leads(self) -> list[str]:
        others = (r for r in self._runs if r.owner is not None and self._role(r.owner) != ASSISTANT)
        return [*self._prompts.variants(self._given), *(run.lead() for run in others)]

    def _check_unknown(self) -> None:
        for segment in self._found.rendering.segments:
            if segment.origin == ORIGIN_UNKNOWN and self._control.pattern.search(segment.text):
                raise TemplateRefused("control token text of unknown origin")

    # One assistant turn

    def _is_in_runs(self, message: int) -> bool:
        """Whether a loop of the template told all that the turn says as its own."""
        unowned = (s for s in self._found.rendering.segments if s.owner is None)
        return message in self._turns() and not any(is_said_by(s.path, message) for s in unowned)

    def _take_runs(self, message: int) -> bool:
        """Train a turn by the runs that are its own; false if its start is not proven."""
        places = [place for place, run in enumerate(self._runs) if run.owner == message]
        for place in places:
            refuse_foreign(self._runs[place].segments, message)
        start = self._starts.of_run(self._runs[places[0]], message)
        if start is None:
            return False
        for place in places:
            run = self._runs[place]
            low = start if place == places[0] else run.start
            stop = self._ends.of_run(self._runs, place, low)
            if self._found.writes(low, stop):
                self._found.spans.append(TrainedSpan(low, stop, run.stop, message))
        return True

    def _take_by_prompts(self, message: int) -> None:
        """A turn that no loop of the template tells apart: the rendered prompts must do."""
        said = self._said(message)
        if not said:
            if message in self._turns():
                self._found.context_only[message] = NOT_FOLLOWED
            return
        start, reach = self._starts.by_prompt(message, said[0][0]), self._reach(message)
        if start is None or reach is None or not start <= said[0][0] <= said[-1][1] <= reach:
            self._found.context_only[message] = NOT_FOLLOWED
            return
        inside = [s for low, high, s in self._places if start < high and low < reach]
        refuse_foreign(inside, message)
        stop = self._ends.within(max(said[-1][1], start), reach)
        self._found.spans.append(TrainedSpan(start, stop, reach, message))

    def _said(self, message: int) -> list[tuple[int, int]]:
        """Where the text stands that is from what a message says."""
        return [(low, high) for low, high, s in self._places if is_said_by(s.path, message)]

    def _reach(self, message: int) -> int | None:
        """Where the text of the conversation up to this turn ends, if the whole begins with it."""
        if message == len(self._given.messages) - 1:
            return len(self._found.text)
        try:
            upto = self._program.traced(self._given.until(message + 1))
        except TemplateRefused:
            return None
        self._found.traces.append(upto.trace)
        if not same_beginning(upto.segments, self._found.rendering.segments):
            self._found.give_up_compiling(OTHER_WAY)
        return len(upto.text) if self._found.text.startswith(upto.text) else None

    def _drop_unsaid(self, message: int) -> None:
        """A turn of which nothing is written is not trained: not to say nothing."""
        if message in self._found.context_only:
            return
        spans, said = self._found.of(message), self._said(message)
        if any(s.start <= high and low <= s.stop for low, high in said for s in spans):
            return
        if self._has_words(message):
            self._leave(message, NOT_WRITTEN)
        elif not spans and message in self._turns():
            self._leave(message, "nothing of the turn is left to generate")

    def _leave(self, message: int, why: str) -> None:
        self._found.spans = [s for s in self._found.spans if s.message != message]
        if message in self._turns() or self._said(message):
            self._found.context_only[message] = why

    def _has_words(self, message: int) -> bool:
        """Whether a turn says something: of strings a question that a skeleton must ask, too."""
        fields = with_reasoning_names(self._given.messages)[message]
        values = [(name, fields.get(name)) for name in SAID]
        if any(value and not isinstance(value, str) for _, value in values):
            return True
        with traced(self._found.rendering.trace):
            texts = [
                traced_value(value, ("messages", message, name)).strip()
                for name, value in values
                if isinstance(value, str)
            ]
            return any([bool(text) for text in texts])

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
        if expression_of(here) == expression_of(last):
            return
        with traced(self._found.rendering.trace):  # which of the two depends on the strings
            differs = TracedText(here) != TracedText(last)
        if differs:
            self._found.rewritten.append(message)

    def _check_prefixes(self) -> None:
        """A second proof, without traces: where the rendering of the prompt is a prefix of the
        text, the turn starts at its end."""
        for message in sorted({span.message for span in self._found.spans}):
            span = self._found.of(message)[0]
            before = self._starts.rendered_stop(message, span.start)
            if before is None or before == span.start:
                continue
            self._found.notes.add("the rendered prompt does not end where the turn starts")
            self._found.give_up_compiling("the prompt's rendering ends elsewhere")
            if self._may_start(span, before):
                self._found.spans[self._found.spans.index(span)] = replace(span, start=before)
            else:
                self._leave(message, "the prompt's rendering ends elsewhere")

    def _check_borders(self) -> None:
        """No turn of others opens in a learned turn; before it stands what was said before it."""
        segments, openers = self._found.rendering.segments, self._openers_of_others()
        for message in sorted({span.message for span in self._found.spans}):
            for span in self._found.of(message):
                refuse_openers(span, segments, self._control, openers)
            if not is_in_order(segments, self._given.messages, self._found.of(message)[0]):
                self._leave(message, ORDER)

    def _openers_of_others(self) -> frozenset[str]:
        """Tokens that open what users say and no turn of the model."""
        users = [r for r in self._runs if r.owner is not None and self._role(r.owner) == "user"]
        first = (self._control.pattern.search(run.lead()) for run in users)
        ends = {self._program.keywords.get(name) for name in ("bos_token", "eos_token")}
        prompts = "".join(self._prompts.variants(self._given))
        both = {match.group() for match in first if match} - self._declared.stops - ends
        return frozenset(token for token in both if token not in prompts)

    def _may_start(self, span: TrainedSpan, start: int) -> bool:
        """Only inside the template's own text at the front of the turn, or before white space."""
        if start < span.start:
            free = all(s.stop <= start for s in self._found.spans if s.start < span.start)
            return free and not self._found.text[start : span.start].strip()
        run = next((r for r in self._runs if r.owner == span.message), None)
        inside = run is not None and run.start <= start <= run.start + len(run.lead())
        return inside and start < span.stop

    def _find_unused(self) -> None:
        segments = self._found.rendering.segments
        self._found.unused = unused_fields(self._given.messages, self._found, self._control)
        shown = {s.path[1] for s in segments if s.path and s.path[0] == "messages" and s.path[1:]}
        turns = set(self._turns())
        for message, fields in enumerate(self._given.messages):
            if fields.get("role") == ASSISTANT and message not in turns | shown:
                self._found.unused.append((message, "turn"))
