"""Where an assistant's turn starts: behind what the generation prompt has supplied.

Nothing is guessed. The template's own text at the front of a turn is compared with the text that
its generation prompt adds; what that does not explain leaves the turn context.
"""

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.derived import Declared, Derivation, Run
from pipeline_lib.templates.generation_prompt import GenerationPrompt, PromptReader
from pipeline_lib.templates.used_fields import is_said_by
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.segments import Segments, cut, same_beginning, text_of
from pipeline_lib.tracing.trace import TemplateRefused, traced
from pipeline_lib.tracing.traced_text import TracedText

OTHER_WAY = "the prompt and the conversation are written in different ways"


class TurnStarts:
    """Finds the starts of the turns of one conversation; notes go to ``found``."""

    def __init__(
        self,
        prompts: PromptReader,
        rules: tuple[ControlTokens, Declared],
        given: ChatInput,
        found: Derivation,
    ) -> None:
        self._prompts, self._given, self._found = prompts, given, found
        self._control, self._declared = rules
        self._rendered: dict[int, Segments] = {}

    def of_run(self, run: Run, message: int) -> int | None:
        """The place in the text where the turn that ``run`` begins starts; None if not proven."""
        skipped = self._skipped(run, message, self._prompt(message))
        return None if skipped is None else run.start + skipped

    def by_prompt(self, message: int, said: int) -> int | None:
        """The same for a turn that no loop of the template tells apart; its words are at ``said``.

        Where the template adds nothing, the turn must have no header either.
        """
        prompt = self._prompt(message)
        start = self._behind(prompt)
        blank = start is not None and not self._found.text[start:said].strip()
        return start if prompt.text or blank else None

    def rendered_stop(self, message: int, start: int) -> int | None:
        """The length of the plain rendering of the prompt, if that is a prefix of the text.

        ``start``: where the turn starts, as was found. Where the prompt and the text are written in
        different ways, the strings decide: a skeleton must ask the same.
        """
        try:
            rendered = self._rendered.get(message) or self._prompts.rendered(message, self._given)
            before = self._prompts.plain(message, self._given)
        except TemplateRefused:
            return None
        segments = self._found.rendering.segments
        if not same_beginning(rendered, segments):
            with traced(self._found.rendering.trace):
                bool(TracedText(cut(segments, 0, start)) == TracedText(rendered))
                TracedText(segments).startswith(TracedText(rendered))
        return len(before) if self._found.text.startswith(before) else None

    def _prompt(self, message: int) -> GenerationPrompt:
        prompt = self._prompts.before(message, self._given, self._found.traces)
        if prompt.guessed:
            self._found.notes.add("generation prompt taken from a short conversation")
        self._rendered[message] = prompt.rendered
        return prompt

    def _behind(self, prompt: GenerationPrompt) -> int | None:
        """Where the rendered prompt ends, if the whole text begins with it."""
        text = text_of(prompt.rendered)
        if not text or not self._found.text.startswith(text):
            return None
        self._found.notes.add("turn told by the rendered prompt alone")
        if not same_beginning(prompt.rendered, self._found.rendering.segments):
            self._found.give_up_compiling(OTHER_WAY)
        return len(text)

    def _skipped(self, run: Run, message: int, prompt: GenerationPrompt) -> int | None:
        """How many characters at the start of the turn the model does not generate."""
        lead = run.lead()
        for text in prompt.texts:
            if text and lead.startswith(text):
                return len(text)
        if self._repeats(run, message, prompt):
            return len(prompt.text)
        variants = [v for v in self._prompts.variants(self._given) if v]
        declared = self._declared_skip(lead, prompt.text, variants)
        if declared is not None:
            return declared
        if self._only_header(run, message, [prompt.text, *variants]):
            self._found.notes.add("turn writes the generation prompt without a part of it")
            return len(lead)
        return None if prompt.text else self._without_prompt(lead, variants)

    def _declared_skip(self, lead: str, prompt: str, variants: list[str]) -> int | None:
        shorter = [
            prompt[: -len(o)]
            for o in self._declared.omissions
            if o != prompt and prompt.endswith(o)
        ]
        for note, texts in (
            ("turn leaves out a declared part of the generation prompt", shorter),
            ("turn follows the generation prompt of other switches", variants),
        ):
            fitting = [len(t) for t in texts if t and lead.startswith(t)]
            if fitting:
                self._found.notes.add(note)
                return max(fitting)
        return None

    def _only_header(self, run: Run, message: int, prompts: list[str]) -> bool:
        """Whether all that the template writes before what the turn says is in a prompt, too."""
        following = next((s for s in run.segments if not s.trusted), None)
        if following is None or not is_said_by(following.path, message):
            return False
        return any(_left_out(run.lead().strip(), prompt.strip()) for prompt in prompts)

    def _without_prompt(self, lead: str, variants: list[str]) -> int | None:
        """The template adds nothing here: then the turn must have no header either."""
        if not lead.strip():
            return 0
        if not variants:
            raise TemplateRefused("template has no generation prompt, so a header can not be told")
        first = self._control.pattern.match(lead.lstrip())
        headers = {found for text in variants for found in self._control.pattern.findall(text)}
        return 0 if first and not headers & set(self._control.pattern.findall(lead)) else None

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


def _left_out(lead: str, prompt: str) -> bool:
    """Whether ``lead`` is the prompt with one part left out, at its end or in its middle."""
    same = 0
    while same < min(len(lead), len(prompt)) and lead[same] == prompt[same]:
        same += 1
    rest = lead[same:]
    inside_word = prompt[same - 1 : same].isalnum() and prompt[same : same + 1].isalnum()
    return bool(same) and not inside_word and prompt[same:].endswith(rest)
