"""Conversations as samples under a model's template: pieces, and which of them are learned.

Usually a conversation is one sample. Where a template writes a turn otherwise once the
conversation has gone on, there is one sample for each turn that is learned (see ``ChatPolicy``).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pipeline_lib.records import Turn
from pipeline_lib.templates.layouts import NO_TURN, LaidPiece, Layout
from pipeline_lib.templates.model_template import Facts, ModelTemplate, ProvenText
from pipeline_lib.templates.policies import ChatPolicy
from pipeline_lib.templates.skeletons import Skeleton
from pipeline_lib.templates.turn_messages import END_OF_THINK, THINK, MessageForm, messages_of
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused
from pipeline_lib.tracing.traced_values import REASONING_FIELDS

CONTEXT_ONLY = "turns without a proven start"
REWRITTEN = "turns written otherwise in the history"
DROPPED = "{} that the template drops"
_CLOSING = END_OF_THINK.strip()

Turns = Sequence[Turn]
Tools = list[Any] | None
MakeLayout = Callable[[Sequence[LaidPiece]], Layout]


class Wanted(NamedTuple):
    """What is to be learned of a rendering: the messages, and those whose end mark is not."""

    turns: frozenset[int]
    cut: frozenset[int] = frozenset()

    def without(self, start: int, stop: int) -> "Wanted":
        """The same when messages ``start`` to ``stop`` are left out."""
        sides = (
            frozenset(t if t < start else t - (stop - start) for t in side if not start <= t < stop)
            for side in (self.turns, self.cut)
        )
        return Wanted(*sides)


class Sample(NamedTuple):
    """One sample: its pieces, and the turns and tools that it was made of.

    ``trusted``: for each text, whether it is the template's. ``notes``: what is to be counted.
    ``fixed``: the first turn that is never dropped.
    """

    layout: Layout
    trusted: Sequence[bool]
    notes: Counter[str]
    texts: Sequence[str]
    turns: Turns
    tools: Tools
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

    def samples(self, turns: Turns, tools: Tools) -> list[Sample]:
        """The samples of a conversation; ``TemplateRefused`` if one can not be made."""
        wanted = self._wanted(turns)
        found = self._pieces(turns, tools)
        if wanted.turns and found.facts.rewritten and self._policy.history == "split":
            return [
                self._made(turns[: turn + 1], tools, Wanted(frozenset((turn,)), wanted.cut))
                for turn in sorted(wanted.turns)
            ]
        return [self._sample(found, turns, tools, wanted)]

    def continuation(self, turns: Turns, tools: Tools, first: int) -> Sample:
        """A whole conversation of which only turns from ``first`` on are learned."""
        wanted = self._wanted(turns)
        later = frozenset(turn for turn in wanted.turns if turn >= first)
        made = self._made(turns, tools, Wanted(later, wanted.cut))
        return made._replace(fixed=first)

    def whole(self, turns: Turns, tools: Tools) -> Sample:
        """A whole conversation; everything that is generated counts as learned."""
        found, every = self._pieces(turns, tools), Wanted(frozenset(range(len(turns))))
        ready = self._prepared(found, turns, every, _laid)
        return Sample(*ready, found.texts, turns, tools, every, len(turns))

    def shorter(self, sample: Sample) -> Iterator[Sample | None]:
        """The sample without its oldest turns, up to a user turn, fewer with each step.

        A system turn at the start stays. None where the template refuses what is left.
        """
        turns = sample.turns
        head = int(turns[0]["role"] == "system")
        for start in range(head + 1, sample.fixed):
            if turns[start]["role"] == "user":
                kept, wanted = [*turns[:head], *turns[start:]], sample.wanted.without(head, start)
                yield self._if_possible(kept, sample.tools, wanted)

    def _if_possible(self, turns: Turns, tools: Tools, wanted: Wanted) -> Sample | None:
        try:
            return self._made(turns, tools, wanted)
        except TemplateRefused:
            return None

    def _wanted(self, turns: Turns) -> Wanted:
        flags = [(t["role"], t.get("learn", True), t.get("cut", False)) for t in turns]
        return _wanted(self._policy, tuple(flags))

    def _pieces(self, turns: Turns, tools: Tools) -> ProvenText:
        return self._template.pieces(ChatInput(messages_of(turns, self._form), tools))

    def _made(self, turns: Turns, tools: Tools, wanted: Wanted) -> Sample:
        return self._sample(self._pieces(turns, tools), turns, tools, wanted)

    def _sample(self, found: ProvenText, turns: Turns, tools: Tools, wanted: Wanted) -> Sample:
        fixed = len(turns) - 1
        if self._policy.reasoning == "context" and _inside_contents(turns, self._form):
            pieces = _without_reasoning(found, _shown(found, wanted))
            ready = self._prepare(found, turns, wanted, pieces)
            return Sample(*ready, [piece.text for piece in pieces], turns, tools, wanted, fixed)
        lay = _laid_shown if self._policy.reasoning == "train" else _behind_reasoning
        ready = self._prepared(found, turns, wanted, lay)
        return Sample(*ready, found.texts, turns, tools, wanted, fixed)

    def _prepared(
        self,
        found: ProvenText,
        turns: Turns,
        wanted: Wanted,
        lay: Callable[[ProvenText, Wanted], list[LaidPiece]],
    ) -> Prepared:
        """What is the same for all conversations of a skeleton is made once."""
        if found.skeleton is None:
            return self._prepare(found, turns, wanted, lay(found, wanted))
        key = found.skeleton, wanted
        if key not in self._known:
            self._known[key] = self._prepare(found, turns, wanted, lay(found, wanted))
        return self._known[key]

    def _prepare(
        self, found: ProvenText, turns: Turns, wanted: Wanted, pieces: list[LaidPiece]
    ) -> Prepared:
        _check_dropped(found.facts, turns)
        trusted = [piece.trusted for piece in pieces]
        return Prepared(
            self._make_layout(pieces), trusted, _notes(found.facts, turns, wanted.turns)
        )


@lru_cache(maxsize=4_096)
def _wanted(policy: ChatPolicy, turns: tuple[tuple[str, bool, bool], ...]) -> Wanted:
    """By role, ``learn`` and ``cut`` of each turn: most conversations have them alike."""
    learned = policy.learned([role for role, _, _ in turns])
    return Wanted(
        frozenset(n for n in learned if turns[n][1]),
        frozenset(n for n, (_, _, cut) in enumerate(turns) if cut),
    )


def _check_dropped(facts: Facts, turns: Turns) -> None:
    """What a template drops of a user, a tool or an answer makes another conversation of it."""
    for number, name in facts.unused:
        if name != "reasoning" and turns[number]["role"] != "system":
            raise TemplateRefused(DROPPED.format(f"{name} of the {turns[number]['role']}"))


def _notes(facts: Facts, turns: Turns, wanted: frozenset[int]) -> Counter[str]:
    notes = Counter(facts.notes)
    notes[CONTEXT_ONLY] = len(facts.context_only.keys() & wanted)
    notes[REWRITTEN] = len(wanted & set(facts.rewritten))
    for number, name in facts.unused:
        if turns[number]["role"] == "system" or number in wanted:
            notes[DROPPED.format(name if name == "reasoning" else f"system {name}")] += 1
    return +notes


def _laid(found: ProvenText, wanted: Wanted) -> list[LaidPiece]:
    """The pieces, with the turns that are learned; the end mark of a cut turn is not."""
    pieces = [
        LaidPiece(text, kind.trusted, kind.turn if kind.turn in wanted.turns else NO_TURN)
        for text, kind in zip(found.texts, found.kinds, strict=True)
    ]
    for turn in wanted.cut & wanted.turns:
        own = [n for n, piece in enumerate(pieces) if piece.turn == turn]
        data = max((n for n in own if not pieces[n].trusted), default=-1)
        for number in (n for n in own if n > data):
            pieces[number] = _unlearned(pieces[number])
    return pieces


def _unlearned(piece: LaidPiece) -> LaidPiece:
    return LaidPiece(piece.text, piece.trusted, NO_TURN)


def _shown(found: ProvenText, wanted: Wanted) -> Wanted:
    """Without the turns that the history writes otherwise than they are generated."""
    return wanted._replace(turns=wanted.turns - set(found.facts.rewritten))


def _laid_shown(found: ProvenText, wanted: Wanted) -> list[LaidPiece]:
    return _laid(found, _shown(found, wanted))


def _behind_reasoning(found: ProvenText, wanted: Wanted) -> list[LaidPiece]:
    """Nothing of a turn up to the end of its reasoning is learned."""
    pieces = _laid_shown(found, wanted)
    ends: dict[int | None, int] = {}
    for number, kind in enumerate(found.kinds):
        if kind.field in REASONING_FIELDS:
            ends[kind.turn] = number
    return [
        _unlearned(piece) if number <= ends.get(kind.turn, -1) else piece
        for number, (piece, kind) in enumerate(zip(pieces, found.kinds, strict=True))
    ]


def _inside_contents(turns: Turns, form: MessageForm) -> bool:
    """Whether an answer has its reasoning inside the content that the template gets."""
    return not form.reasoning_field and any(
        turn["role"] == "assistant" and turn["content"].startswith(THINK) for turn in turns
    )


def _without_reasoning(found: ProvenText, wanted: Wanted) -> list[LaidPiece]:
    """The same where the reasoning stands inside the content: that piece is cut in two."""
    pieces = _laid(found, wanted)
    out: list[LaidPiece] = []
    open_turns = {
        kind.turn
        for text, kind in zip(found.texts, found.kinds, strict=True)
        if kind.field == "content" and _CLOSING in text
    }
    for piece, kind in zip(pieces, found.kinds, strict=True):
        if kind.turn is None or kind.turn not in open_turns:
            out.append(piece)
        elif kind.field == "content" and _CLOSING in piece.text:
            thought, mark, answer = piece.text.partition(_CLOSING)
            out += [LaidPiece(thought, piece.trusted, NO_TURN)]
            out += [LaidPiece(mark + answer, piece.trusted, piece.turn)]
            open_turns.discard(kind.turn)
        else:
            out.append(_unlearned(piece))
    return out
