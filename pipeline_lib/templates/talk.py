"""A conversation as samples are made of it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.records import LEARN_ALL, LEARN_CONTENT, ROLES, Turn, learn_bits

Turns = Sequence[Turn]
Tools = list[Any] | None
MakeTurns = Callable[[], tuple[Turns, Tools]]
_ROLE_BITS = 4
_ROLE = (1 << _ROLE_BITS) - 1
_PLAIN = {"role", "content", "learn", "cut"}


class Talk:
    """The turns of a conversation and its tools, which are made only when something asks for them.

    ``contents``: the text of each turn. ``kinds``: for each turn a byte, its role and where it may
    be learned (see ``kinds_of``). ``plain``: there is nothing else, so conversations of the
    same kinds differ in their contents alone.
    """

    __slots__ = ("_made", "_make", "contents", "kinds", "plain")

    def __init__(self, contents: list[str], kinds: bytes, plain: bool, make: MakeTurns) -> None:
        self.contents, self.kinds, self.plain = contents, kinds, plain
        self._make = make
        self._made: tuple[Turns, Tools] | None = None

    @classmethod
    def of(cls, turns: Turns, tools: Tools = None) -> "Talk":
        """The conversation of these turns."""
        roles = np.array([ROLES.index(turn["role"]) for turn in turns], np.int8)
        kinds = kinds_of(roles, np.array([learn_bits(turn) for turn in turns], np.int8))
        plain = tools is None and all(turn.keys() <= _PLAIN for turn in turns)
        return cls([turn["content"] for turn in turns], kinds, plain, lambda: (turns, tools))

    def __len__(self) -> int:
        return len(self.contents)

    @property
    def turns(self) -> Turns:
        """The turns."""
        return self._both()[0]

    @property
    def tools(self) -> Tools:
        """The JSON schemas of the tools that were offered; None without."""
        return None if self.plain else self._both()[1]

    def _both(self) -> tuple[Turns, Tools]:
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def roles(self) -> list[str]:
        """The role of each turn."""
        return [ROLES[kind & _ROLE] for kind in self.kinds]

    @property
    def silent(self) -> list[int]:
        """The turns that are not to be learned."""
        return [n for n, kind in enumerate(self.kinds) if not kind >> _ROLE_BITS & LEARN_CONTENT]

    @property
    def cut(self) -> list[int]:
        """The turns whose end is not to be learned, but their content is."""
        return [n for n, kind in enumerate(self.kinds) if kind >> _ROLE_BITS == LEARN_CONTENT]

    def until(self, stop: int) -> "Talk":
        """Its first turns."""

        def make() -> tuple[Turns, Tools]:
            return self.turns[:stop], self.tools

        return Talk(self.contents[:stop], self.kinds[:stop], self.plain, make)

    def continued(self, stop: int, other: "Talk") -> "Talk":
        """Its first turns, and those of another conversation behind them."""

        def make() -> tuple[Turns, Tools]:
            return [*self.turns[:stop], *other.turns], self.tools

        contents = self.contents[:stop] + other.contents
        kinds = self.kinds[:stop] + other.kinds
        return Talk(contents, kinds, self.plain and other.plain, make)


def kinds_of(roles: NDArray[np.int8], learn: NDArray[np.int8]) -> bytes:
    """A byte for each turn: its role (index in ``ROLES``), and above it the bits of ``learn``."""
    return (roles | (learn & LEARN_ALL) << _ROLE_BITS).astype(np.uint8).tobytes()
