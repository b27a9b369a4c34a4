"""The README's table of chat templates, derived from the templates themselves.

``PYTHONPATH=. python tests/family_table.py`` prints it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chat_templates import ORIGINAL, control_of, derivation, shapes_for

from pipeline_lib.templates.families import declared_for

PLAIN = ("one turn", "three turns", "white space", "control text")
TOOLS = ("a tool call", "arguments as text", "two calls")
SYSTEM, LAST, EARLIER, CALLING = (
    *("a system turn", "reasoning", "earlier reasoning"),
    "reasoning and a call",
)
SHAPES = (*PLAIN, SYSTEM, LAST, EARLIER, *TOOLS, CALLING, "two answers")
HEAD = ("family", "templates", "plain", "tool calls", "reasoning", "end of a turn", "trained")


@dataclass(frozen=True)
class Outcome:
    """What comes out of one template under all shapes."""

    name: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns behind the name."""
        return self.plain(), self.tools(), self.reasoning(), self.end(), self.trained()

    def plain(self) -> str:
        if not all(self.whole(shape) for shape in PLAIN):
            return "no"
        return "yes" if self.whole(SYSTEM) else "no system turn"

    def whole(self, shape: str) -> bool:
        """Whether every assistant turn of a conversation is trained."""
        seen, turns = self.turns(shape)
        return seen == turns > 0

    def turns(self, shape: str) -> tuple[int, int]:
        """Assistant turns of a conversation: trained, and all."""
        found = derivation(self.name, shape)
        if found is None:
            return 0, 0
        messages = shapes_for(self.name)[shape].messages
        spoken = {n for n, message in enumerate(messages) if message["role"] == "assistant"}
        return len(spoken & {span.message for span in found.spans}), len(spoken)

    def tools(self) -> str:
        rendered = [shape for shape in TOOLS if derivation(self.name, shape)]
        kept = [shape for shape in rendered if not self.unread(shape, "tool calls")]
        if not kept:
            return "dropped" if rendered else "refused"
        if "a tool call" not in kept:
            return "arguments as text"
        if "two calls" in kept:
            return "rendered"
        return "the first of a turn" if "two calls" in rendered else "one a turn"

    def reasoning(self) -> str:
        if not self.unread(EARLIER, "reasoning"):
            return "kept"
        if not self.unread(LAST, "reasoning"):
            return "of the last turn"
        return "not read" if 1 in self.unread(CALLING, "reasoning") else "with tool calls"

    def unread(self, shape: str, name: str) -> set[int]:
        """The messages of which a field is not in the text; the first turn, if it is refused."""
        found = derivation(self.name, shape)
        return {n for n, field in found.unused if field == name} if found else {1}

    def end(self) -> str:
        """The control text that ends the last turn, and that of earlier ones where it differs."""
        last, earlier = self.ends("one turn")[-1:], self.ends("three turns")[:1]
        names = [f"`{text}`" if text else "none" for text in (*last, *earlier)]
        return names[0] if names[0] == names[-1] else f"{names[0]}, {names[1]} before"

    def ends(self, shape: str) -> list[str]:
        found = derivation(self.name, shape)
        pattern = control_of(ORIGINAL[self.name].read_text()).pattern
        texts = [found.text[span.start : span.stop] for span in found.spans] if found else []
        tokens = [[m for m in pattern.finditer(text) if m.end() == len(text)] for text in texts]
        return [match[-1].group() if match else "" for match in tokens]

    def trained(self) -> str:
        counts = [self.turns(shape) for shape in SHAPES]
        seen, turns = map(sum, zip(*counts, strict=True))
        return "every turn" if seen == turns else f"{seen} of {turns} turns"


def rows() -> Iterator[tuple[str, ...]]:
    """A row for the templates of one family that came out alike."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in ORIGINAL:
        family = declared_for(ORIGINAL[name].read_text())[0]
        alike.setdefault((str(family), *Outcome(name).cells), []).append(name)
    for (family, *cells), names in alike.items():
        yield family, ", ".join(names), *cells


def markdown() -> str:
    """The table."""
    return "\n".join([_line(HEAD), _line("---" for _ in HEAD), *map(_line, sorted(rows()))])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    print(markdown())
