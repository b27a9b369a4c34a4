"""What is known of a rendered conversation."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from pipeline_lib.tracing.program import Rendering
from pipeline_lib.tracing.segments import Segments, TextSegment, cut, text_of
from pipeline_lib.tracing.trace import RenderTrace, traced
from pipeline_lib.tracing.traced_text import TracedText


@dataclass(frozen=True)
class Declared:
    """What is known of a family and can not be derived.

    ``omissions``: ends of the generation prompt that a turn of the history may leave out.
    ``stops``: tokens that end a turn although the next turn writes them.
    """

    omissions: tuple[str, ...] = ()
    stops: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Run:
    """Neighbouring segments of one owner: ``text`` from ``start``."""

    owner: int | None
    start: int
    segments: Segments

    @property
    def text(self) -> str:
        """The run's text."""
        return text_of(self.segments)

    @property
    def stop(self) -> int:
        """The end of the run in the rendered text."""
        return self.start + len(self.text)

    def lead(self) -> str:
        """The trusted text that the run begins with."""
        return _trusted(self.segments)

    def tail(self) -> int:
        """The number of trusted characters that the run ends with."""
        return len(_trusted(reversed(self.segments)))


def _trusted(segments: Iterable[TextSegment]) -> str:
    return text_of(takewhile(lambda s: s.trusted, segments))


@dataclass(frozen=True)
class TrainedSpan:
    """Characters ``start`` to ``stop`` that the model generates in message ``message``.

    ``reach``: the end of the turn's text, behind white space that follows the end token.
    """

    start: int
    stop: int
    reach: int
    message: int


@dataclass
class Derivation:
    """A rendered conversation, and what is known of it.

    ``spans``: what the model generates. ``context_only``: message -> why its turn is not trained.
    ``rewritten``: assistant turns that are rendered otherwise than when they are the last.
    ``unused``: (message, field) that is not in the text. ``notes``: what is to be counted.
    ``traces``: of each rendering that took part; a skeleton must ask all their questions.
    """

    rendering: Rendering
    spans: list[TrainedSpan] = field(default_factory=list)
    context_only: dict[int, str] = field(default_factory=dict)
    rewritten: list[int] = field(default_factory=list)
    unused: list[tuple[int, str]] = field(default_factory=list)
    notes: set[str] = field(default_factory=set)
    traces: list[RenderTrace] = field(default_factory=list)
    not_compiled: str | None = None

    @property
    def text(self) -> str:
        """The rendered text, equal to the plain rendering."""
        return self.rendering.text

    def of(self, message: int) -> list[TrainedSpan]:
        """The spans of one message."""
        return [span for span in self.spans if span.message == message]

    def cut(self) -> Iterator[tuple[TextSegment, int | None]]:
        """(segment, message that generates it or None), cut where a span ends."""
        ends = sorted({end for span in self.spans for end in (span.start, span.stop)})
        start = 0
        for segment in self.rendering.segments:
            stop = start + len(segment.text)
            places = [start, *(end for end in ends if start < end < stop), stop]
            for low, high in pairwise(places):
                turn = self._turn_at(low) if low < high else self._turn_of_empty(segment, low)
                yield segment.part(low - start, high - start), turn
            start = stop

    def _turn_at(self, place: int) -> int | None:
        return next((s.message for s in self.spans if s.start <= place < s.stop), None)

    def _turn_of_empty(self, segment: TextSegment, place: int) -> int | None:
        """An empty text at the border of a turn is of its own message: others have words there."""
        path = segment.path or ()
        mine = (s for s in self.spans if path[:2] == ("messages", s.message))
        return next((s.message for s in mine if s.start <= place <= s.stop), None)

    def writes(self, start: int, stop: int) -> bool:
        """Whether there is text between two places: a question that a skeleton must ask, too."""
        with traced(self.rendering.trace):
            return bool(TracedText(cut(self.rendering.segments, start, stop)))

    def give_up_compiling(self, why: str) -> None:
        """No skeleton is made of this conversation."""
        self.not_compiled = self.not_compiled or why


def runs_of(segments: Sequence[TextSegment]) -> list[Run]:
    """The segments, neighbours of one owner together."""
    groups: list[list[TextSegment]] = []
    for segment in segments:
        if groups and groups[-1][0].owner == segment.owner:
            groups[-1].append(segment)
        else:
            groups.append([segment])
    runs, start = [], 0
    for group in groups:
        runs.append(Run(group[0].owner, start, tuple(group)))
        start = runs[-1].stop
    return runs
