"""Conversations as samples under a model's template: pieces, and which of them are learned.

Usually a conversation is one sample. Where a template writes a turn otherwise once the
conversation has gone on, there is one sample for each turn that is learned (see ``ChatPolicy``).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from pipeline_lib.templates.conversation_shape import shape_of
from pipeline_lib.templates.layouts import LaidPiece, Layout
from pipeline_lib.templates.learned_pieces import (
    Wanted,
    behind_reasoning,
    laid,
    laid_shown,
    shown,
    without_reasoning,
)
from pipeline_lib.templates.model_template import Facts, ModelTemplate, ProvenText
from pipeline_lib.templates.policies import ChatPolicy
from pipeline_lib.templates.skeletons import Skeleton
from pipeline_lib.templates.talk import Talk
from pipeline_lib.templates.turn_messages import (
    THINK,
    MessageForm,
    messages_of,
    split_thought,
)
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused

CONTEXT_ONLY = "turns without a proven start"
REWRITTEN = "turns written otherwise in the history"
DROPPED = "{} that the template drops"

MakeLayout = Callable[[Sequence[LaidPiece]], Layout]


class Sample(NamedTuple):
    """One sample: its pieces, and the conversation that it was made of.

    ``trusted``: for each text, whether it is the template's. ``notes``: what is to be counted.
    ``fixed``: the first turn that is never dropped.
    """

    layout: Layout
    trusted: Sequence[bool]
    notes: Counter[str]
    texts: Sequence[str]
    talk: Talk
    wanted: Wanted
    fixed: int

    @property
    def text(self) -> str:
        """The rendered text."""
        return "".join(self.texts)

    @property
    def data(self) -> list[str]:
        """The texts that are not the template's."""
        return [text for text, ours in zip(self.texts, self.trusted, strict=True) if not ours]


class Prepared(NamedTuple):
    """What a sample has in common with all others of its skeleton: see ``Sample``."""

    layout: Layout
    trusted: Sequence[bool]
    notes: Counter[str]


class SampleMaker:
    """Makes the samples of conversations for one template and policy."""

    def __init__(
        self, template: ModelTemplate, form: MessageForm, policy: ChatPolicy, layout: MakeLayout
    ) -> None:
        self._template, self._form, self._policy = template, form, policy
        self._make_layout = layout
        self._known: dict[tuple[Skeleton, Wanted], Prepared] = {}
        self._shapes: dict[tuple[bytes, tuple[int, ...]], Hashable] = {}

    def samples(self, talk: Talk) -> list[Sample]:
        """The samples of a conversation; ``TemplateRefused`` if one can not be made."""
        wanted, found = self._wanted(talk), self._pieces(talk)
        if wanted.turns and found.facts.rewritten and self._policy.history == "split":
            return [
                self._made(talk.until(turn + 1), Wanted(frozenset((turn,)), wanted.cut))
                for turn in sorted(wanted.turns)
            ]
        return [self._sample(found, talk, wanted)]

    def continuation(self, talk: Talk, first: int) -> Sample:
        """A whole conversation of which only turns from ``first`` on are learned."""
        wanted = self._wanted(talk)
        later = frozenset(turn for turn in wanted.turns if turn >= first)
        return self._made(talk, Wanted(later, wanted.cut))._replace(fixed=first)

    def whole(self, talk: Talk) -> Sample:
        """A whole conversation; everything that is generated counts as learned."""
        found, every = self._pieces(talk), Wanted(frozenset(range(len(talk))))
        ready = self._prepared(found, talk, every, laid)
        return Sample(*ready, found.texts, talk, every, len(talk))

    def shorter(self, sample: Sample) -> Iterator[Sample | None]:
        """The sample without its oldest turns, up to a user turn, fewer with each step.

        A system turn at the start stays. None where the template refuses what is left.
        """
        turns = sample.talk.turns
        head = int(turns[0]["role"] == "system")
        for start in range(head + 1, sample.fixed):
            if turns[start]["role"] == "user":
                kept = Talk.of([*turns[:head], *turns[start:]], sample.talk.tools)
                yield self._if_possible(kept, sample.wanted.without(head, start))

    def _if_possible(self, talk: Talk, wanted: Wanted) -> Sample | None:
        try:
            return self._made(talk, wanted)
        except TemplateRefused:
            return None

    def _wanted(self, talk: Talk) -> Wanted:
        return _wanted(self._policy, talk.kinds)

    def _pieces(self, talk: Talk) -> ProvenText:
        def given() -> ChatInput:
            return ChatInput(messages_of(talk.turns, self._form), talk.tools)

        if not talk.plain or self._form.parts:
            return self._template.pieces(given())
        strings, thoughtful = self._strings(talk)
        key = talk.kinds, thoughtful
        if key not in self._shapes:
            self._shapes[key], _ = shape_of(given())
        return self._template.filled(self._shapes[key], strings, given)

    def _strings(self, talk: Talk) -> tuple[list[str], tuple[int, ...]]:
        """The strings of its messages, and the turns whose reasoning has a field of its own."""
        if not self._form.reasoning_field or not any(t.startswith(THINK) for t in talk.contents):
            return talk.contents, ()
        strings, thoughtful = list[str](), list[int]()
        for turn, (role, content) in enumerate(zip(talk.roles, talk.contents, strict=True)):
            thought, answer = split_thought(content) if role == "assistant" else (None, content)
            strings.append(answer)
            if thought is not None:
                strings.append(thought)
                thoughtful.append(turn)
        return strings, tuple(thoughtful)

    def _made(self, talk: Talk, wanted: Wanted) -> Sample:
        return self._sample(self._pieces(talk), talk, wanted)

    def _sample(self, found: ProvenText, talk: Talk, wanted: Wanted) -> Sample:
        fixed = len(talk) - 1
        if self._policy.reasoning == "context" and _inside_contents(talk, self._form):
            pieces = without_reasoning(found, shown(found, wanted))
            ready = self._prepare(found, talk, wanted, pieces)
            return Sample(*ready, [piece.text for piece in pieces], talk, wanted, fixed)
        lay = laid_shown if self._policy.reasoning == "train" else behind_reasoning
        ready = self._prepared(found, talk, wanted, lay)
        return Sample(*ready, found.texts, talk, wanted, fixed)

    def _prepared(
        self,
        found: ProvenText,
        talk: Talk,
        wanted: Wanted,
        lay: Callable[[ProvenText, Wanted], list[LaidPiece]],
    ) -> Prepared:
        """What is the same for all conversations of a skeleton is made once."""
        if found.skeleton is None:
            return self._prepare(found, talk, wanted, lay(found, wanted))
        key = found.skeleton, wanted
        if key not in self._known:
            self._known[key] = self._prepare(found, talk, wanted, lay(found, wanted))
        return self._known[key]

    def _prepare(
        self, found: ProvenText, talk: Talk, wanted: Wanted, pieces: list[LaidPiece]
    ) -> Prepared:
        _check_dropped(found.facts, talk.roles)
        trusted = [piece.trusted for piece in pieces]
        notes = _notes(found.facts, talk.roles, wanted.turns)
        return Prepared(self._make_layout(pieces), trusted, notes)


@lru_cache(maxsize=4_096)
def _wanted(policy: ChatPolicy, kinds: bytes) -> Wanted:
    """By the kinds of turns: most conversations have them alike."""
    talk = Talk([], kinds, True, lambda: ((), None))
    return Wanted(frozenset(policy.learned(talk.roles)) - {*talk.silent}, frozenset(talk.cut))


def _check_dropped(facts: Facts, roles: Sequence[str]) -> None:
    """What a template drops of a user, a tool or an answer makes another conversation of it."""
    for number, name in facts.unused:
        if name != "reasoning" and roles[number] != "system":
            raise TemplateRefused(DROPPED.format(f"{name} of the {roles[number]}"))


def _notes(facts: Facts, roles: Sequence[str], wanted: frozenset[int]) -> Counter[str]:
    notes = Counter(facts.notes)
    notes[CONTEXT_ONLY] = len(facts.context_only.keys() & wanted)
    notes[REWRITTEN] = len(wanted & set(facts.rewritten))
    for number, name in facts.unused:
        if roles[number] == "system" or number in wanted:
            notes[DROPPED.format(name if name == "reasoning" else f"system {name}")] += 1
    return +notes


def _inside_contents(talk: Talk, form: MessageForm) -> bool:
    """Whether an answer has its reasoning inside the content that the template gets."""
    return not form.reasoning_field and any(
        role == "assistant" and content.startswith(THINK)
        for role, content in zip(talk.roles, talk.contents, strict=True)
    )
