"""What of a conversation is learned, by choice of the user."""

from dataclasses import dataclass
from typing import Literal, get_args

Learn = Literal["all", "last message", "last turn"]
Reasoning = Literal["train", "context"]
History = Literal["split", "as rendered"]


@dataclass(frozen=True)
class ChatPolicy:
    """What of a conversation is learned; ``ValueError`` for an unknown word.

    ``learn``: loss falls on all assistant turns, on the last message only, or on the last turn:
    the messages behind the last user's, with their tool calls. A turn that the data set excludes
    is never learned. ``reasoning``: whether loss falls on reasoning, or only on what follows it.
    ``history``: where a template writes a turn otherwise once the conversation has gone on, as
    many drop earlier reasoning, "split" makes one sample for each assistant turn, rendered as when
    it is the last, and only that turn is learned; "as rendered" keeps one sample, in which such
    turns are context and counted.
    """

    learn: Learn = "all"
    reasoning: Reasoning = "train"
    history: History = "split"

    def __post_init__(self) -> None:
        known = {"learn": Learn, "reasoning": Reasoning, "history": History}
        for name, words in known.items():
            if getattr(self, name) not in get_args(words):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; expected one of {get_args(words)}"
                )

    def learned(self, roles: list[str]) -> set[int]:
        """The assistant messages of a conversation that may be learned, by their numbers."""
        turns = [number for number, role in enumerate(roles) if role == "assistant"]
        if self.learn == "all":
            return set(turns)
        if self.learn == "last message":
            return set(turns[-1:])
        asked = max((n for n, role in enumerate(roles) if role == "user"), default=-1)
        return {number for number in turns if number > asked}
