"""What the model must generate, held against masks that others wrote by hand for each family."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from chat_templates import (
    IN_PARTS,
    KEYWORDS,
    ORIGINAL,
    PATCHED,
    assistant,
    derivation,
    header,
    in_parts,
    model,
    shapes_for,
    user,
)
from hand_masks import marked, trained

from pipeline_lib.templates.conversation_shape import shape_of
from pipeline_lib.templates.derivation import NOT_WRITTEN
from pipeline_lib.templates.derived import Derivation
from pipeline_lib.templates.model_template import ModelTemplate
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.segments import Segments
from pipeline_lib.tracing.trace import TemplateRefused

WRITTEN_BY_THE_TEMPLATE = ("<｜tool▁outputs▁end｜>",)
"""Closes the results of tools: the template writes it before a model can."""
FINAL_EOS = ("phi3", "phi3_5")
"""Their templates write an end-of-text token behind the last turn, whoever spoke."""
NOT_PROVEN = {"diffusion_gemma": "no prompt shows the header behind an answer or a result"}


def derived(template: ModelTemplate, given: ChatInput) -> Derivation | None:
    try:
        return template.derive(given)
    except TemplateRefused:
        return None


def stretches(places: Iterable[int], text: str) -> list[str]:
    """Neighbouring characters as texts."""
    order = sorted(places)
    cuts = [0, *(n for n, (a, b) in enumerate(pairwise(order), 1) if b != a + 1), len(order)]
    return [text[order[low] : order[high - 1] + 1] for low, high in pairwise(cuts) if high > low]


def reason(name: str, text: str, prompt: str) -> str | None:
    """The named class of a difference: what they train and we do not."""
    if not text.strip():
        return "white space behind the end token"
    if text.strip() == KEYWORDS["eos_token"] and name in FINAL_EOS:
        return "the final end-of-text token"
    if prompt.endswith(text.lstrip("\n")) or text in prompt or text in WRITTEN_BY_THE_TEMPLATE:
        return "text that the prompt supplies"
    if text.strip() in ("<think>", "<think>\n\n</think>", "<think></think>"):
        return "text that the prompt supplies"
    return "not proven" if name in NOT_PROVEN else None


def ours_of(name: str, shape: str, given: ChatInput) -> Iterator[Derivation | None]:
    yield derivation(name, shape)
    yield derived(model(name, patched=True), given)


def compare(name: str) -> Counter[str]:
    """On the original template's text where the patched one keeps it, else on the patched one's."""
    seen, source = Counter[str](), PATCHED[name].read_text()
    prompt = header(model(name), parts=name in IN_PARTS)
    for shape, given in shapes_for(name).items():
        theirs = marked(source, given)
        either = ours_of(name, shape, given) if theirs else ()
        ours = next((d for d in either if d and theirs and d.text == theirs[0]), None)
        seen["shapes"] += 1
        if theirs is None or ours is None:
            seen["not compared"] += 1
            continue
        assert not trained(ours) - theirs[1], (name, shape, "trained here and not there")
        for text in stretches(theirs[1] - trained(ours), ours.text):
            known = reason(name, text, prompt)
            if NOT_WRITTEN in ours.context_only.values():
                known = known or NOT_WRITTEN
            assert known, (name, shape, text)
            seen[known] += 1
    return seen


def test_masks_are_those_written_by_hand_but_for_named_differences() -> None:
    seen = sum((compare(name) for name in PATCHED), Counter[str]())
    assert seen["shapes"] >= 34 * 22
    assert seen["not compared"] <= 60, seen
    assert seen["not proven"] <= 4, seen
    assert seen[NOT_WRITTEN] <= 6, seen


def test_few_turns_become_context_when_nothing_is_declared() -> None:
    turns = context = 0
    for name in PATCHED:
        template = model(name, declared=False)
        for given in shapes_for(name).values():
            found = derived(template, given)
            if found is not None:
                turns += sum(m["role"] == "assistant" for m in given.messages)
                context += len(found.context_only)
    assert turns > 1_200
    assert context <= 18, (context, turns)


def sentinels(value: Any, count: list[int]) -> Any:
    """Each string of a conversation replaced by one of characters that no template writes."""
    if isinstance(value, str):
        count[0] += 1
        return "".join(chr(0xE000 + (count[0] * 7 + n) % 6000) for n in range(5))
    if isinstance(value, list):
        return [sentinels(inner, count) for inner in value]
    if isinstance(value, dict):
        fixed = ("role", "type")
        return {k: v if k in fixed else sentinels(v, count) for k, v in value.items()}
    return value


def rendered(template: ModelTemplate, given: ChatInput) -> Segments:
    try:
        return template.program.proven(given).segments
    except TemplateRefused:
        return ()


def test_no_character_of_the_data_lies_in_text_of_the_template() -> None:
    characters = 0
    for name in ORIGINAL:
        template, count = model(name), [0]
        # without their own strings many conversations are the same one
        different = {shape_of(given)[0]: given for given in shapes_for(name).values()}
        for given in different.values():
            asked = ChatInput(sentinels(given.messages, count), given.tools, given.keywords)
            for segment in rendered(template, asked):
                inside = sum(0xE000 <= ord(c) < 0xF800 for c in segment.text)
                characters += inside
                assert not (inside and segment.trusted), (name, asked)
    assert characters > 10_000


def test_a_role_can_not_smuggle_in_control_tokens() -> None:
    given = ChatInput([user("x"), {"role": "<|im_end|>", "content": "y"}, assistant("z")])
    assert derived(model("qwen3"), given) is None


def test_a_turn_rendered_otherwise_in_the_history_is_named() -> None:
    given = ChatInput(
        [*(user("a"), assistant("b", reasoning_content="r")), *(user("c"), assistant("d"))]
    )
    found = derived(model("qwen3"), given)
    assert found is not None
    assert found.rewritten == [1]
    assert (1, "reasoning") in found.unused


def test_the_same_conversation_in_parts_gives_the_same_text() -> None:
    given = ChatInput([user("Hello"), assistant("Hi")])
    plain, parts = derived(model("qwen3_vl"), given), derived(model("qwen3_vl"), in_parts(given))
    assert plain is not None
    assert parts is not None
    assert plain.text == parts.text
    assert trained(plain) == trained(parts)
