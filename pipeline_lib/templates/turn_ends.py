"""Where an assistant's turn ends: behind the token that ends it, before what opens another."""

from collections.abc import Iterable, Sequence

from pipeline_lib.templates.control_text import ControlTokens
from pipeline_lib.templates.derived import Declared, Derivation, Run

NO_END = "no end-of-turn token"


class TurnEnds:
    """Finds the ends of the turns of one conversation; notes go to ``found``.

    ``bos``: the token that begins a text, if it is not also the one that ends it. ``leads``: texts
    that open a turn: generation prompts, and what is written before the turns of others.
    """

    def __init__(
        self,
        rules: tuple[ControlTokens, Declared],
        bos: str | None,
        leads: Iterable[str],
        found: Derivation,
    ) -> None:
        (self._control, self._declared), self._bos, self._found = rules, bos, found
        first = (self._control.pattern.search(lead) for lead in leads)
        openers = {match.group() for match in first if match} | {bos}
        self._openers = openers - self._declared.stops

    def of_run(self, runs: Sequence[Run], place: int, start: int) -> int:
        """The end of the turn that goes on in ``runs[place]``."""
        run = runs[place]
        tail = max(run.stop - run.tail(), start)
        stop = self._token(tail, run.stop)
        if any(later.owner == run.owner for later in runs[place + 1 :]):
            return run.stop if stop is None else stop
        following = runs[place + 1].lead() if place + 1 < len(runs) else ""
        token = self._control.pattern.match(following)
        if token and token.group() in self._declared.stops and stop in (None, run.stop):
            return run.stop + token.end()
        return self._without_token(tail, run.stop) if stop is None else stop

    def within(self, tail: int, stop: int) -> int:
        """The end of a turn whose last words end at ``tail`` and whose text ends at ``stop``."""
        end = self._token(tail, stop)
        return self._without_token(tail, stop) if end is None else end

    def _without_token(self, tail: int, stop: int) -> int:
        """The end of a turn that no token ends: words of the template behind what is said may
        belong to what follows."""
        self._found.notes.add(NO_END)
        return tail if any(map(str.isalnum, self._found.text[tail:stop])) else stop

    def _token(self, tail: int, stop: int) -> int | None:
        """The end of the last control token before one that opens a turn; the first one counts
        whatever it is, but for the token that begins a text."""
        end: int | None = None
        for match in self._control.pattern.finditer(self._found.text, tail, stop):
            if match.group() == self._bos and end is None:
                self._found.notes.add(NO_END)
                return match.start()
            if match.group() in self._openers and end is not None:
                break
            end = match.end()
        return end
