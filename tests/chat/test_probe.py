"""The probe alone, without any key: planted edits that change some of the rows are caught."""

import dataclasses
import hashlib
import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
from chat_world import source_rows, turns

from pipeline_lib.chat import probe
from pipeline_lib.chat.conversation import Pair, Reject, Turns
from pipeline_lib.chat.row_results import RowResult, result_of
from pipeline_lib.chat.rows import PickedRows
from pipeline_lib.chat.store_record import ProbedRow
from pipeline_lib.selection import Split

ROWS = 3_000
WORDS = ("river", "bridge", "clock", "station", "harbour", "lamp", "stone")


def share(row: dict[str, Any], edit: int) -> float:
    """A number from 0 to 1 that depends on the content of a row, another one for each edit."""
    digest = hashlib.sha256(f"{row['text']} {edit}".encode()).digest()
    return int.from_bytes(digest[:4], "little") / 2**32


def make_rows() -> list[dict[str, Any]]:
    rows = []
    for number in range(ROWS):
        words = [WORDS[number // 7**power % 7] for power in range(4)]
        rows.append({"text": " ".join(words) + f" {number}", "language": WORDS[number % 5]})
    return rows


SOURCE = source_rows(make_rows())
PICKED = PickedRows("one", SOURCE, 1, -1)


def plain(row: dict[str, Any]) -> Any:
    return Turns(turns(row["text"], "answer"))


def pairs(row: dict[str, Any]) -> Any:
    answers = (turns(text, first="assistant") for text in (row["text"], "other"))
    return Pair(turns(f"ask {row['text']}"), *answers)


def picky(row: dict[str, Any]) -> Any:
    if row["language"] == "river":
        raise Reject("language")
    return plain(row)


def long(row: dict[str, Any]) -> Any:
    return Turns(turns(*(f"{row['text']} {n}" for n in range(6))), ["long"])


def upper(value: Any) -> Any:
    return [turn | {"content": turn["content"].upper()} for turn in value]


EDITS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "a text": lambda turns, row: [*turns[:-1], turns[-1] | {"content": "another"}],
    "a space": lambda turns, row: [
        *turns[:-1],
        turns[-1] | {"content": turns[-1]["content"] + " "},
    ],
    "the case": lambda turns, row: upper(turns),
    "a rejection": lambda turns, row: Reject("edited"),
    "an exception": lambda turns, row: row["no such column"],
    "a note": lambda turns, row: Turns(turns, [*getattr(turns, "notes", ()), "edited"]),
    "a turn": lambda turns, row: [{"role": "system", "content": "be brief"}, *turns],
    "nothing left": lambda turns, row: None,
}


def edited(shape: Callable[[Any], Any], kind: str, edit: int, part: float) -> Callable[..., Any]:
    """The normalizer with an edit that changes about ``part`` of the rows."""

    def norm(row: dict[str, Any]) -> Any:
        if share(row, edit) >= part:
            return shape(row)
        result = shape(row)
        if isinstance(result, Pair):
            chosen = EDITS[kind](result.chosen, row)
            if isinstance(chosen, list) and kind not in ("a turn", "a note"):
                return Pair(result.prompt, chosen, result.rejected)
            return Pair(result.prompt, result.chosen, result.rejected, ("edited",))
        return EDITS[kind](result, row)

    return norm


def side(conversation: Turns | Pair) -> Split:
    return "train"


def results(normalizer: Callable[[Any], Any]) -> Callable[[dict[str, Any]], RowResult]:
    return lambda row: result_of(row, normalizer, side)


def recorded(normalizer: Callable[[Any], Any]) -> list[ProbedRow]:
    found = []
    for place in sorted(probe.picked_places(ROWS, 1, "one")):
        (row,) = PICKED.block(place, place + 1)
        found.append(probe.probed(PICKED.address(place), results(normalizer)(row)))
    return found


def standing() -> float:
    return 0.0


def test_the_probe_alone_finds_190_of_200_edits_that_change_a_twentieth_of_the_rows() -> None:
    shapes = (plain, pairs, picky, long)
    stored = {shape: recorded(shape) for shape in shapes}
    sample = make_rows()[::20]
    before = {shape: [results(shape)(row).digest for row in sample] for shape in shapes}
    forms = itertools.cycle(itertools.product(shapes, EDITS, (0.07, 0.1, 0.2)))
    planted = caught = 0
    for edit, (shape, kind, part) in enumerate(forms):
        new = results(edited(shape, kind, edit, part))
        after = [new(row).digest for row in sample]
        if sum(map(operator.ne, before[shape], after)) < 0.05 * len(sample):
            continue
        planted += 1
        caught += probe.run_again(stored[shape], SOURCE, new, standing).difference is not None
        if planted == 200:
            break
    assert caught >= 190


def test_what_did_not_change_is_not_reported() -> None:
    for shape in (plain, pairs, picky, long):
        outcome = probe.run_again(recorded(shape), SOURCE, results(shape), standing)
        assert outcome == probe.ProbeOutcome(probe.GOAL)


def test_the_rows_are_spread_over_the_source_and_a_small_source_is_taken_whole() -> None:
    places = probe.picked_places(100_000, 1, "one")
    assert len(places) == probe.GOAL >= 2 * probe.LEAST
    assert {place * 10 // 100_000 for place in places} == set(range(10))
    assert probe.picked_places(5, 1, "one") == {0, 1, 2, 3, 4}


def test_a_slow_normalizer_runs_again_for_two_seconds_and_at_least_once() -> None:
    rows, seconds = recorded(plain), itertools.count()
    outcome = probe.run_again(rows, SOURCE, results(plain), lambda: next(seconds) * 0.5)
    assert outcome.tried == 4
    slow = itertools.count()
    assert probe.run_again(rows, SOURCE, results(plain), lambda: next(slow) * 9.0).tried == 1
    least = itertools.count()
    outcome = probe.run_again(rows, SOURCE, results(plain), lambda: next(least) * 9.0, probe.LEAST)
    assert outcome.tried == probe.LEAST


def test_a_difference_shows_row_old_and_new_and_whether_it_repeats() -> None:
    rows, count = recorded(plain), itertools.count()
    difference = probe.run_again(rows, SOURCE, results(long), standing).difference
    assert difference is not None and difference.repeats
    assert f"{SOURCE.data[[difference.row]]['text'][0]} | assistant: answer" in difference.old
    assert difference.new != difference.old and "assistant" in difference.new

    def counting(row: dict[str, Any]) -> Any:
        return turns(row["text"], str(next(count)))

    difference = probe.run_again(rows, SOURCE, results(counting), standing).difference
    assert difference is not None and not difference.repeats


@pytest.mark.parametrize("shape", [plain, pairs, picky, long])
def test_every_part_of_a_result_is_in_its_digest(shape: Callable[[Any], Any]) -> None:
    row = make_rows()[1]
    result = results(shape)(row)
    other_side = result_of(row, shape, lambda conversation: "val")
    assert result.digest != other_side.digest
    if not isinstance(result.outcome, Reject):
        noted = dataclasses.replace(result, outcome=with_a_note(result.outcome))
        assert noted.digest != result.digest


def with_a_note(conversation: Turns | Pair) -> Turns | Pair:
    if isinstance(conversation, Pair):
        return dataclasses.replace(conversation, notes=("another",))
    return Turns(conversation, ["another"])
