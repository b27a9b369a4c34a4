"""Skeletons: a proven rendering as one Python function of a conversation's strings.

The function asks each question that the template asked. Where all answers are the same, it returns
the pieces; else None, and the conversation takes the full way.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline_lib.templates.conversation_shape import places_of
from pipeline_lib.templates.derived import Derivation
from pipeline_lib.tracing.expressions import Expression, SourcePath, is_literal, literal
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.segments import TextSegment
from pipeline_lib.tracing.trace import Guard
from pipeline_lib.tracing.traced_values import json_text

INDENT = "    "
COMPARISONS = ("==", "<", ">", "<=", ">=")

Strings = list[str]
MakeInput = Callable[[], ChatInput]
Fill = Callable[[Strings, MakeInput], list[str] | None]


class PieceKind(NamedTuple):
    """What is known of a piece.

    ``trusted``: template text, whose control tokens are control tokens; in a skeleton it is the
    same for all conversations. ``turn``: the index of the assistant message that generates it; None
    elsewhere. ``field``: the field of a message that it is from, or None.
    """

    trusted: bool
    turn: int | None
    field: str | None


@dataclass(frozen=True, eq=False)
class Skeleton:
    """``fill(strings, given)`` gives the texts of the pieces, or None; ``kinds`` what they are.

    ``given`` makes the conversation; few templates need more of it than its strings.
    """

    fill: Fill
    kinds: tuple[PieceKind, ...]


class NotCompiled(Exception):
    """No skeleton can be made; the message says why."""


def skeleton_of(found: Derivation, given: ChatInput, strings: Strings) -> Skeleton:
    """The skeleton of a derived conversation, verified on it; else ``NotCompiled``."""
    why = found.not_compiled or next((t.not_compiled for t in found.traces if t.not_compiled), None)
    if why is not None:
        raise NotCompiled(why)
    pieces = pieces_of(found)
    compiler = _Compiler(places_of(given))
    for trace in found.traces:
        for guard in trace.guards.values():
            compiler.guard(guard)
    fill = compiler.function([expression for expression, _ in pieces])
    filled = fill(strings, lambda: given)
    if filled is None or "".join(filled) != found.text:
        raise NotCompiled("the skeleton does not give its own conversation")
    return Skeleton(fill, tuple(kind for _, kind in pieces))


def pieces_of(found: Derivation) -> list[tuple[Expression, PieceKind]]:
    """The segments cut at the ends of spans; fixed neighbours of one kind are one piece."""
    pieces: list[tuple[Expression, PieceKind]] = []
    for segment, turn in found.cut():
        kind = kind_of(segment, turn)
        if segment.trusted and not is_literal(segment.expression):
            raise NotCompiled("text of the template depends on the conversation")
        if pieces and segment.fixed and pieces[-1][1] == kind:
            before = pieces[-1][0]
            if before.operation == "literal":
                pieces[-1] = (literal(f"{before.operands[0]}{segment.text}"), kind)
                continue
        pieces.append((segment.expression, kind))
    return pieces


def kind_of(segment: TextSegment, turn: int | None) -> PieceKind:
    """What is known of a segment that message ``turn`` generates."""
    path = segment.path
    field = str(path[2]) if path and path[0] == "messages" and len(path) > 2 else None
    return PieceKind(segment.trusted, turn, None if segment.trusted else field)


class _Compiler:
    """Writes the source of one function; each expression is computed once."""

    def __init__(self, places: dict[SourcePath, int]) -> None:
        self._places = places
        self._names: dict[Expression, str] = {}
        self._lines: list[str] = []
        self._constants: dict[str, Any] = {"json_text": json_text}

    def guard(self, guard: Guard) -> None:
        """A line that leaves the function when the answer differs."""
        question = _question(guard.question, self._code(guard.of), self._codes(guard.arguments))
        self._lines.append(f"if {question} != {self._constant(guard.answer)}: return None")

    def function(self, pieces: list[Expression]) -> Fill:
        """The function that returns the texts of the pieces."""
        result = ", ".join(self._code(piece) for piece in pieces)
        lines = [*self._lines, f"return [{result}]"]
        source = "def fill(strings, given):\n" + "\n".join(INDENT + line for line in lines)
        exec(source, self._constants)
        return self._constants["fill"]  # type: ignore[no-any-return]

    def _constant(self, value: object) -> str:
        """A value by name: nothing of the conversation ever becomes source text."""
        if value is None or isinstance(value, bool | int):
            return repr(value)
        name = f"c{len(self._constants)}"
        self._constants[name] = value
        return name

    def _codes(self, values: tuple[Hashable, ...]) -> list[str]:
        return [self._code(v) if isinstance(v, Expression) else self._constant(v) for v in values]

    def _code(self, expression: Expression) -> str:
        operation, operands, _ = expression
        if operation in ("literal", "constant"):
            return self._constant(operands[0])
        if operation == "source":
            return f"strings[{self._place(operands[0])}]"
        if expression not in self._names:
            code = self._write(operation, operands)
            self._names[expression] = f"v{len(self._names)}"
            self._lines.append(f"{self._names[expression]} = {code}")
        return self._names[expression]

    def _place(self, path: Any) -> int:
        if path not in self._places:
            raise NotCompiled("a string that has no place in the conversation")
        return self._places[path]

    def _write(self, operation: str, operands: tuple[Any, ...]) -> str:
        if operation == "join":
            return "".join(["''", *(f" + {self._code(e)}" for e in operands)])
        if operation == "call":
            method, text, arguments = operands
            return f"{self._code(text)}.{method}({', '.join(self._codes(arguments))})"
        if operation == "item":
            return f"{self._code(operands[0])}[{operands[1]}]"
        if operation == "slice":
            start, stop = ("" if end is None else end for end in operands[1:])
            return f"{self._code(operands[0])}[{start}:{stop}]"
        if operation == "json":
            return f"json_text({self._code(operands[0])}, **{self._options(operands[1])})"
        if operation == "json_source":
            return f"json_text({self._part(operands[0])}, **{self._options(operands[1])})"
        raise NotCompiled("a text that can not be computed again")

    def _options(self, options: tuple[tuple[str, Any], ...]) -> str:
        return self._constant(dict(options))

    def _part(self, path: SourcePath) -> str:
        """A part of the conversation; a whole message has names that are added later."""
        if path[0] == "messages" and len(path) < 3:
            raise NotCompiled("JSON of a whole message")
        return f"given().{path[0]}" + "".join(f"[{self._constant(step)}]" for step in path[1:])


def _question(question: str, text: str, arguments: list[str]) -> str:
    if question in COMPARISONS:
        return f"({text} {question} {arguments[0]})"
    if question.startswith("items of "):
        return f"len({text}.{question.removeprefix('items of ')}({', '.join(arguments)}))"
    if question.startswith("length "):
        return f"(len({text}) {question.removeprefix('length ')} {arguments[0]})"
    simple = {
        "value": text,
        "bool": f"bool({text})",
        "length": f"len({text})",
        "contains": f"({arguments[0] if arguments else ''} in {text})",
    }
    return simple.get(question, f"{text}.{question}({', '.join(arguments)})")
