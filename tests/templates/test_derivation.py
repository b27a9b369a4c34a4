"""What the model must generate, held against masks that others wrote by hand for each family."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest
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
from small_templates import BY_NUMBER, PROMPT, TALK, TOKENS, loop, prompt, spans

from pipeline_lib.templates.conversation_shape import shape_of
from pipeline_lib.templates.derivation import NOT_FOLLOWED, NOT_WRITTEN
from pipeline_lib.templates.derived import Declared, Derivation, TrainedSpan
from pipeline_lib.templates.families import declared_for
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


TWICE = [user("x"), assistant("One"), assistant("Two")]
ASKED = "{% if add_generation_prompt and messages[-1].role == 'user' %}<bot>\n{% endif %}"
ELSEWHERE = "the rendered prompt does not end where the turn starts"


def small(source: str, messages: list[dict[str, Any]] = TALK, **keywords: Any) -> Derivation:
    return ModelTemplate(source, TOKENS, keywords).derive(ChatInput(messages))


def test_a_turn_has_the_same_span_whether_a_loop_or_the_prompts_tell_it() -> None:
    by_loop, by_prompts = small(loop("{{ '<bot>\n' + m.content + '</s>\n' }}")), small(BY_NUMBER)
    yes = by_loop.text.index("Yes</s>\n")
    assert by_loop.spans == by_prompts.spans
    assert by_loop.spans[0] == TrainedSpan(yes, yes + 7, yes + 8, 1)
    assert [span.message for span in by_loop.spans] == [1, 3]
    assert by_loop.not_compiled is by_prompts.not_compiled is None
    assert ELSEWHERE not in by_loop.notes | by_prompts.notes


def test_words_that_stand_behind_the_loop_belong_to_their_turn() -> None:
    source = loop("<bot>\n", "") + "{% if messages[-1].role != 'user' %}{{ messages[-1].content }}"
    assert spans(source + "</s>{% endif %}" + PROMPT, TALK[:2]) == ["Yes</s>"]


def test_an_answer_may_follow_the_question_without_anything_between_them() -> None:
    source = BY_NUMBER.replace("'<bot>\n' + ", "").replace(
        "content + '</s>\n' }}{% else", "content }}{% else"
    )
    assert spans(source.replace(PROMPT, "")) == ["Yes</s>", "No</s>"]


def test_the_token_that_begins_a_text_ends_a_turn_only_if_it_is_the_end_token_too() -> None:
    source = loop("{{ '<bot>\n' + m.content + '\n<s>' }}")
    for end, expected in (("</s>", ["Yes\n", "No\n"]), ("<s>", ["Yes\n<s>", "No\n<s>"])):
        assert spans(source, eos_token=end) == expected
    assert spans(source, bos_token=None) == ["Yes\n<s>", "No\n<s>"]


def test_a_turn_that_does_not_follow_the_prompt_is_context_also_without_words() -> None:
    source = loop("{{ '<bot>!' + m.content + '</s>' }}", prompt("<bot>Bo:"))
    found = small(source, [user("x"), assistant(""), user("y"), assistant("No")])
    assert found.context_only == {1: NOT_FOLLOWED, 3: NOT_FOLLOWED}
    assert not found.spans
    unsaid = small(loop("{{ '<bot>!</s>' }}", prompt("<bot>Bo:")))
    assert unsaid.context_only == {1: NOT_FOLLOWED, 3: NOT_FOLLOWED}


def test_a_turn_without_words_and_an_end_is_named_and_has_no_span() -> None:
    found = small(loop("{{ '<bot>\n' + m.content }}"), [*TALK, user("y"), assistant("")])
    assert found.context_only == {5: "nothing of the turn is left to generate"}
    assert [span.message for span in found.spans] == [1, 3]


@pytest.mark.parametrize("source", [loop("{{ '<bot>\n' + m.content + '</s>' }}"), BY_NUMBER])
def test_words_of_another_message_inside_a_turn_are_refused(source: str) -> None:
    other = source.replace("content + '</s>", "content + messages[0].content + '</s>")
    with pytest.raises(TemplateRefused, match="another message inside"):
        small(other, [user("x"), assistant("Yes"), user("y"), assistant("No")])


def test_a_turn_starts_at_the_end_of_its_prompt_or_it_is_named() -> None:
    """White space before it is generated, if the prompt does not write it; a header is not."""
    blank = "{{ ('<bot>\n' if loop.previtem.role == 'user' else '\n') + m.content }}"
    found = small(loop(blank, ASKED), TWICE)
    assert [found.text[s.start : s.stop] for s in found.spans] == ["One", "\nTwo"]
    found = small(loop("{{ '<bot>\n' + m.content }}", ASKED), TWICE)
    assert ELSEWHERE in found.notes
    assert found.context_only == {2: "the prompt's rendering ends elsewhere"}
    assert found.not_compiled == "the prompt's rendering ends elsewhere"


def test_a_form_in_the_history_that_only_some_contents_show_is_asked_for() -> None:
    """A skeleton of the one is none of the other."""
    words = "(m.content if loop.last else m.content.strip())"
    source = loop("{{ '<bot>\n' + " + words + " + '</s>' }}")
    found = small(source)
    assert (found.rewritten, found.not_compiled) == ([], None)
    talk = [user("x"), assistant(" Yes "), user("y"), assistant("No")]
    assert small(source, talk).rewritten == [1]
    template = ModelTemplate(source, TOKENS)
    seen = [template.pieces(ChatInput(messages)) for messages in (TALK, talk, TALK)]
    assert [made.facts.rewritten for made in seen] == [(), (1,), ()]
    assert seen[2].skeleton is not None


def test_a_turn_of_which_the_template_writes_nothing_is_named() -> None:
    found = small(loop("{% if loop.last %}{{ '<bot>\n' + m.content + '</s>' }}{% endif %}"))
    assert [unused for unused in found.unused if unused[1] == "turn"] == [(1, "turn")]
    assert [span.message for span in found.spans] == [3]


def test_masks_are_those_written_by_hand_but_for_named_differences() -> None:
    seen = sum((compare(name) for name in PATCHED), Counter[str]())
    assert seen["shapes"] >= 34 * 22
    assert seen["not compared"] <= 60, seen
    assert seen["not proven"] <= 4, seen
    assert seen[NOT_WRITTEN] <= 6, seen


def undeclared(name: str) -> bool:
    """Whether nothing is declared of a family at all."""
    return declared_for(ORIGINAL[name].read_text())[1] == Declared()


def test_few_turns_become_context_when_nothing_is_declared() -> None:
    turns = context = 0
    for name in PATCHED:
        template, nothing = model(name, declared=False), undeclared(name)
        for shape, given in shapes_for(name).items():
            found = derivation(name, shape) if nothing else derived(template, given)
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
