"""What one rendering did: what it asked of the data, whose turn it was in, what it has spent."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from pipeline_lib.tracing.expressions import Expression, applied, is_literal

MOST_STEPS = 100_000
"""Passes of loops and calls of macros in one rendering. A long conversation needs some thousand."""

MOST_CHARACTERS = 256 << 20
"""Characters of all strings made in one rendering, counted together."""

MOST_READ = 1 << 29
"""Characters that filters, methods and comparisons look at in one rendering, counted together."""

ITEM_READ = 1 << 11
"""A look at an item of a list costs as much as one at so many characters."""

ITEM_COST = 64
"""A piece of a string, or an item of a list that is put together, costs as much as so many
characters: what it takes in memory."""


STEP_READ = 64
"""A part of the body of a loop or macro costs as much as a look at so many characters."""


MOST_NESTED = 32
"""Steps in which a text may be computed from another; templates of models need two or three."""


class TemplateRefused(Exception):
    """A template, or a conversation under it, is refused. ``reason`` is counted; it has no data."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


def computed(operation: str, *operands: Hashable) -> Expression:
    """An operation on expressions; refused where a text is computed in too many steps."""
    made = applied(operation, operands)
    if made.steps > MOST_NESTED:
        raise TemplateRefused("a text is computed in too many steps", f"over {MOST_NESTED}")
    return made


class Guard(NamedTuple):
    """A question that the template asked of a string, and the answer.

    Another conversation is rendered the same way as long as all its answers are the same.
    """

    question: str
    of: Expression
    arguments: tuple[Hashable, ...]
    answer: Hashable


class Budget:
    """Steps and characters that are left. Counted, never timed: the same on any machine."""

    def __init__(self) -> None:
        self.steps, self.characters, self.readable = MOST_STEPS, MOST_CHARACTERS, MOST_READ

    def step(self, size: int = 0) -> str:
        """One pass of a loop or one call of a macro, whose body has ``size`` parts; an empty
        string, for use in a template."""
        self.steps -= 1
        self.read(STEP_READ * size)
        if self.steps < 0:
            raise TemplateRefused("template takes too many steps", f"more than {MOST_STEPS:,}")
        return ""

    def spend(self, characters: int, items: int = 0) -> None:
        """A new string, with its pieces, or a new list, with its items."""
        self.characters -= characters + ITEM_COST * items
        if self.characters < 0:
            raise TemplateRefused("template makes too much text", f"over {MOST_CHARACTERS:,}")

    def read(self, characters: int, items: int = 0) -> str:
        """A look at a string or at the items of a list; an empty string, for use in a template."""
        self.readable -= characters + ITEM_READ * items
        if self.readable < 0:
            raise TemplateRefused("template reads too much", f"over {MOST_READ:,}")
        return ""


class RenderTrace(Budget):
    """The record of one rendering.

    ``guards``: the questions, each once, in the order of first asking. ``not_compiled``: why no
    skeleton can be made of it, or None.
    """

    def __init__(self) -> None:
        super().__init__()
        self.guards: dict[tuple[Hashable, ...], Guard] = {}
        self.not_compiled: str | None = None
        self._loops: list[tuple[int, int | None]] = []

    def guard(
        self, question: str, of: Expression, arguments: tuple[Hashable, ...], answer: Hashable
    ) -> None:
        """Remember a question, unless only the template's own text was asked."""
        asked = (of, *(a for a in arguments if isinstance(a, Expression)))
        if not all(is_literal(e) for e in asked):
            self.guards.setdefault(
                (question, of, arguments), Guard(question, of, arguments, answer)
            )

    def give_up_compiling(self, why: str) -> None:
        """No skeleton: each such conversation takes the full way."""
        self.not_compiled = self.not_compiled or why

    @property
    def owner(self) -> int | None:
        """The message whose loop body is running: its index; None outside of all."""
        return next((index for _, index in reversed(self._loops) if index is not None), None)

    def enter(self, loop: int, message: int | None) -> None:
        """The next pass of a loop over messages, or over something else (None)."""
        self.leave(loop)
        self._loops.append((loop, message))

    def leave(self, loop: int) -> None:
        """The loop ended, and all loops inside it."""
        for place, (running, _) in enumerate(self._loops):
            if running == loop:
                del self._loops[place:]
                return

    def assign(self, loop: int, message: int) -> None:
        """The first message assigned in the body of a loop over numbers: the body is its own."""
        for place, (running, owner) in enumerate(self._loops):
            if running == loop and owner is None:
                self._loops[place] = (loop, message)


_running: ContextVar[RenderTrace] = ContextVar("_running")


def running() -> RenderTrace:
    """The trace of the rendering that runs in this thread."""
    return _running.get()


@contextmanager
def traced(trace: RenderTrace) -> Iterator[RenderTrace]:
    """Renderings inside the block are recorded in ``trace``."""
    token = _running.set(trace)
    try:
        yield trace
    finally:
        _running.reset(token)
