"""The chat template of a model: conversations to pieces, proven, or refused with a reason."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.conversation_shape import shape_of
from pipeline_lib.templates.derivation import Deriver
from pipeline_lib.templates.derived import Declared, Derivation
from pipeline_lib.templates.skeletons import (
    MakeInput,
    NotCompiled,
    PieceKind,
    Skeleton,
    kind_of,
    skeleton_of,
)
from pipeline_lib.tracing.program import DEFAULT_DATE, ChatInput, ChatProgram
from pipeline_lib.tracing.trace import TemplateRefused
from pipeline_lib.tracing.traced_values import Keywords

METHOD_VERSION = 3
"""Increased when pieces of any conversation change."""

SKELETONS_A_SHAPE = 32
"""Conversations of one shape that answer a template's questions in more ways take the full way."""

PLAIN_CHECKS, CHECK_EVERY = 8, 64
"""Each skeleton's result is compared with the plain rendering the first times, then now and then:
a proof that runs on the user's own data."""


class TextPiece(NamedTuple):
    """A piece of rendered text. ``trusted``: its control tokens are control tokens. ``turn``: the
    assistant message that generates it, or None."""

    text: str
    trusted: bool
    turn: int | None


class Facts(NamedTuple):
    """What is the same for all conversations of one skeleton; indices are those of messages."""

    context_only: dict[int, str]
    rewritten: tuple[int, ...]
    unused: tuple[tuple[int, str], ...]
    notes: frozenset[str]


class ProvenText(NamedTuple):
    """The pieces of a conversation: their texts and kinds, and what is known of it.

    ``skeleton``: where it came out of one, the skeleton: all conversations that it serves have the
    same kinds, facts, and texts of trusted pieces.
    """

    texts: list[str]
    kinds: tuple[PieceKind, ...]
    facts: Facts
    skeleton: Skeleton | None

    @property
    def text(self) -> str:
        """The text, equal to what ``apply_chat_template(tokenize=False)`` gives."""
        return "".join(self.texts)

    @property
    def pieces(self) -> list[TextPiece]:
        """Each text with its kind."""
        both = zip(self.texts, self.kinds, strict=True)
        return [TextPiece(text, kind.trusted, kind.turn) for text, kind in both]


@dataclass
class _Compiled:
    skeleton: Skeleton
    facts: Facts
    uses: int = 0


@dataclass
class TemplateCounts:
    """How conversations were done: by a skeleton, compiled anew, or in full, and why in full."""

    by_skeleton: int = 0
    compiled: int = 0
    in_full: Counter[str] = field(default_factory=Counter)


class ModelTemplate:
    """A model's own chat template.

    ``source``: the Jinja text. ``keywords``: what the template may read beside the messages, as
    ``bos_token``, ``eos_token``, ``enable_thinking``. ``control``: the texts that are control
    tokens. ``TemplateRefused`` if the template uses what is not allowed.
    """

    def __init__(
        self,
        source: str,
        control: ControlTokens,
        keywords: Keywords | None = None,
        declared: Declared | None = None,
        today: datetime = DEFAULT_DATE,
    ) -> None:
        self.program = ChatProgram(source, keywords or {}, today)
        self._deriver = Deriver(self.program, control, declared or Declared())
        self.counts = TemplateCounts()
        self._known: dict[Hashable, list[_Compiled]] = {}

    def derive(self, given: ChatInput) -> Derivation:
        """The full way: everything about one conversation."""
        return self._deriver.derive(given)

    def pieces(self, given: ChatInput) -> ProvenText:
        """The pieces of a conversation; ``TemplateRefused`` with a reason that can be counted."""
        return self.filled(*shape_of(given), lambda: given)

    def filled(self, shape: Hashable, strings: list[str], given: MakeInput) -> ProvenText:
        """The same for a conversation by its shape and strings; ``given`` makes the rest of it."""
        for known in self._known.get(shape, ()):
            filled = known.skeleton.fill(strings, given)
            if filled is not None:
                self._check(known, filled, given)
                self.counts.by_skeleton += 1
                return ProvenText(filled, known.skeleton.kinds, known.facts, known.skeleton)
        return self._in_full(shape, strings, given())

    def _check(self, known: _Compiled, filled: list[str], given: MakeInput) -> None:
        known.uses += 1
        if known.uses > PLAIN_CHECKS and known.uses % CHECK_EVERY:
            return
        if "".join(filled) != self.program.plain(given()):
            raise TemplateRefused("skeleton differs from the plain text")

    def _in_full(self, shape: Hashable, strings: list[str], given: ChatInput) -> ProvenText:
        found = self.derive(given)
        facts = Facts(
            dict(found.context_only),
            tuple(found.rewritten),
            tuple(found.unused),
            frozenset(found.notes),
        )
        self._compile(shape, strings, given, found, facts)
        cut = list(found.cut())
        kinds = tuple([kind_of(segment, turn) for segment, turn in cut])
        return ProvenText([segment.text for segment, _ in cut], kinds, facts, None)

    def _compile(
        self, shape: Hashable, strings: list[str], given: ChatInput, found: Derivation, facts: Facts
    ) -> None:
        known = self._known.setdefault(shape, [])
        if len(known) >= SKELETONS_A_SHAPE:
            self.counts.in_full["too many forms of one shape"] += 1
            return
        try:
            known.append(_Compiled(skeleton_of(found, given, strings), facts))
            self.counts.compiled += 1
        except NotCompiled as why:
            self.counts.in_full[str(why)] += 1
