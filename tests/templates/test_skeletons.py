"""A skeleton gives what the full derivation gives, and what the template alone renders."""

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from chat_templates import ORIGINAL, changed, model, shapes_for

from pipeline_lib.templates.model_template import ModelTemplate, ProvenText
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused

FUZZED = 5_000
"""Conversations of all families; those with long templates, which take longer, have fewer."""
Characters = list[tuple[str, bool, int | None]]


def pieces_or_reason(template: ModelTemplate, given: ChatInput) -> ProvenText | str:
    try:
        return template.pieces(given)
    except TemplateRefused as refused:
        return refused.reason


def full_or_reason(
    template: ModelTemplate, given: ChatInput
) -> list[tuple[str, bool, object]] | str:
    try:
        found = template.derive(given)
    except TemplateRefused as refused:
        return refused.reason
    return by_character([(s.text, s.trusted, turn) for s, turn in found.cut()])


def by_character(pieces: Characters) -> Characters:
    return [(c, trusted, turn) for text, trusted, turn in pieces for c in text]


def check(name: str, times: int, seed: int) -> Counter[str]:
    """Conversations of all shapes with changed strings; each is rendered three ways.

    What ``pieces`` itself did in full needs no second derivation.
    """
    chance, template, seen = random.Random(seed), model.__wrapped__(name), Counter[str]()
    plans = list(shapes_for(name).values())
    short = sorted(plans, key=lambda plan: len(plan.messages))[: len(plans) // 3]
    for number in range(times):  # all shapes once or twice, and then those that take less time
        plan = [*plans, *plans, *short * (times // len(short))][number]
        given = replace(plan, messages=changed(plan.messages, chance))
        before = template.counts.by_skeleton
        fast = pieces_or_reason(template, given)
        if isinstance(fast, ProvenText):
            assert fast.text == template.program.plain(given), (name, given)
        if template.counts.by_skeleton == before:
            continue
        full = full_or_reason(template, given)
        if isinstance(fast, str) or isinstance(full, str):
            assert fast == full, (name, given)
            continue
        assert by_character([tuple(p) for p in fast.pieces]) == full, (name, given)
    seen.update({"skeleton": template.counts.by_skeleton, "compiled": template.counts.compiled})
    return seen


def share(name: str) -> float:
    lengths = {family: path.stat().st_size for family, path in ORIGINAL.items()}
    return (1 / lengths[name]) / sum(1 / length for length in lengths.values())


@pytest.mark.parametrize("name", ORIGINAL)
def test_a_skeleton_gives_what_the_full_way_and_the_template_alone_give(name: str) -> None:
    seen = check(name, math.ceil(FUZZED * share(name)), 1)
    assert seen["skeleton"], seen


@pytest.mark.long
@pytest.mark.parametrize("name", ORIGINAL)
def test_fifty_thousand_conversations_come_out_the_same_three_ways(name: str) -> None:
    check(name, -(-50_000 // len(ORIGINAL)), 2)
