"""Samples: what is learned of a conversation, under every policy, and what is counted."""

import random
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, get_args

import pytest
from chat_templates import ORIGINAL, control_of, model
from chat_world import turns

from pipeline_lib.records import Turn
from pipeline_lib.templates.layouts import NO_TURN, LaidPiece
from pipeline_lib.templates.model_template import ModelTemplate
from pipeline_lib.templates.policies import ChatPolicy, History, Learn, Reasoning
from pipeline_lib.templates.samples import (
    CONTEXT_ONLY,
    REWRITTEN,
    Sample,
    SampleMaker,
    Wanted,
)
from pipeline_lib.templates.talk import Talk
from pipeline_lib.templates.turn_messages import form_of
from pipeline_lib.tracing.program import ChatInput
from pipeline_lib.tracing.trace import TemplateRefused

THOUGHTS = "<think>\nhm\n</think>\n\n"
SYSTEM = Turn(role="system", content="Be kind.")
TALK = [SYSTEM, *turns("q one", "a one", "q two", "a two")]
END = "<|im_end|>"


def maker(name: str, **policy: Any) -> SampleMaker:
    """Its layouts are the pieces themselves."""
    template = model(name)

    def as_they_are(pieces: Sequence[LaidPiece]) -> Any:
        return list(pieces)

    return SampleMaker(template, form_of(template.program), ChatPolicy(**policy), as_they_are)


def own_maker(source: str, **policy: Any) -> SampleMaker:
    """The same for a template of roles in bars."""
    template = ModelTemplate(source, control_of(source + "<|assistant|><|user|><|end|>"))
    return SampleMaker(template, form_of(template.program), ChatPolicy(**policy), list)  # type: ignore[arg-type]


def trained(sample: Sample) -> str:
    pieces: Any = sample.layout
    return "".join(
        text for text, piece in zip(sample.texts, pieces, strict=True) if piece.turn != NO_TURN
    )


def learned(name: str, talk: Sequence[Turn], **policy: Any) -> list[str]:
    return [trained(sample) for sample in maker(name, **policy).samples(Talk.of(talk))]


def test_one_sample_learns_every_answer_with_its_end() -> None:
    (sample,) = maker("qwen2_5").samples(Talk.of(TALK))
    assert trained(sample) == f"a one{END}a two{END}"
    assert sample.text == model("qwen2_5").program.plain(ChatInput([{**turn} for turn in TALK]))
    assert "".join(sample.data) == "Be kind.q onea oneq twoa two"


def test_the_policy_decides_which_answers_are_learned() -> None:
    assert learned("qwen2_5", TALK, learn="last message") == [f"a two{END}"]
    assert learned("qwen2_5", TALK, learn="last turn") == [f"a two{END}"]


def test_an_answer_that_its_data_set_excludes_is_context() -> None:
    talk = [*TALK]
    talk[2] = Turn(role="assistant", content="a one", learn=False)
    assert learned("qwen2_5", talk) == [f"a two{END}"]
    assert learned("qwen2_5", TALK) == [f"a one{END}a two{END}"]


def test_the_end_of_a_cut_answer_is_not_learned() -> None:
    talk = [*TALK[:-1], Turn(role="assistant", content="a tw", cut=True)]
    assert learned("qwen2_5", talk) == [f"a one{END}a tw"]


def test_the_reasoning_of_a_cut_answer_is_learned() -> None:
    talk = [*turns("q"), Turn(role="assistant", content=f"{THOUGHTS}on", cut=True)]
    assert learned("qwen3", talk) == [f"{THOUGHTS}on"]


def test_turns_that_are_left_out_move_the_numbers_of_the_later_ones() -> None:
    wanted = Wanted(frozenset({0, 1, 2, 3, 5}), frozenset({2, 5}))
    assert wanted.without(1, 3) == Wanted(frozenset({0, 1, 3}), frozenset({3}))


def test_a_rewritten_history_gives_each_answer_a_sample_as_when_it_is_last() -> None:
    talk = turns("q", f"{THOUGHTS}one", "r", f"{THOUGHTS}two", "s", "three")
    found = maker("qwen3").samples(Talk.of(talk))
    assert [trained(sample) for sample in found] == [
        f"{THOUGHTS}one{END}", f"{THOUGHTS}two{END}", f"<think>\n\n</think>\n\nthree{END}",
    ]  # fmt: skip
    assert [len(sample.talk) for sample in found] == [2, 4, 6]
    assert all(not sample.notes for sample in found)


def test_only_answers_that_may_be_learned_get_a_sample() -> None:
    talk = turns("q", f"{THOUGHTS}one", "r", f"{THOUGHTS}two")
    assert learned("qwen3", talk, learn="last message") == [f"{THOUGHTS}two{END}"]
    silent = [turn if turn["role"] == "user" else {**turn, "learn": False} for turn in talk]
    assert learned("qwen3", silent) == [""]


def test_as_rendered_counts_what_it_can_not_learn() -> None:
    talk = turns("q", f"{THOUGHTS}one", "r", f"{THOUGHTS}two")
    (sample,) = maker("qwen3", history="as rendered").samples(Talk.of(talk))
    assert trained(sample) == f"{THOUGHTS}two{END}"
    assert sample.notes == {REWRITTEN: 1, "reasoning that the template drops": 1}


def test_an_answer_that_does_not_follow_the_prompt_is_counted() -> None:
    source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    source += "{% if add_generation_prompt %}<|other|>{% endif %}"
    (sample,) = own_maker(source).samples(Talk.of(turns("q", "a")))
    assert sample.notes[CONTEXT_ONLY] == 1
    assert trained(sample) == ""


@pytest.mark.parametrize("name", ["qwen3", "llama3"])
def test_reasoning_as_context_is_read_and_not_learned(name: str) -> None:
    talk = turns("q", f"{THOUGHTS}one")
    (text,) = learned(name, talk, reasoning="context")
    assert "hm" not in text
    assert text.startswith(("</think>", "\n</think>"))
    assert "one" in text
    (sample,) = maker(name, reasoning="context").samples(Talk.of(talk))
    assert sample.text == maker(name).samples(Talk.of(talk))[0].text
    assert "hm" in learned(name, talk)[0]


def test_reasoning_inside_an_answer_leaves_text_and_trust_as_they_are() -> None:
    source = "{% for m in messages %}<|{{ m.role }}|>{{ '!' if m.role == 'assistant' }}"
    source += "{{ m.content }}<|end|>{% endfor %}"
    source += "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    talk = turns("q", f"{THOUGHTS}one", "r", "two")
    whole, without = (
        own_maker(source, reasoning=r).samples(Talk.of(talk))[0] for r in ("train", "context")
    )
    assert trained(whole) == f"!{THOUGHTS}one<|end|>!two<|end|>"
    assert trained(without) == "</think>\n\none<|end|>!two<|end|>"
    assert whole.text == without.text
    assert "".join(whole.data) == "".join(without.data)


def test_an_answer_without_reasoning_is_learned_whole_under_every_policy() -> None:
    talk = turns("q", "plain", "r", f"{THOUGHTS}one")
    (text,) = learned("llama3", talk, reasoning="context")
    assert text.startswith("plain<|eot_id|></think>")


def test_a_continuation_learns_nothing_of_its_prompt() -> None:
    sample = maker("qwen2_5").continuation(Talk.of(TALK), 4)
    assert trained(sample) == f"a two{END}"


def test_a_whole_conversation_tells_the_turn_of_every_generated_character() -> None:
    talk = [*TALK]
    talk[2] = Turn(role="assistant", content="a one", learn=False)
    sample = maker("qwen2_5", learn="last message").whole(Talk.of(talk))
    assert trained(sample) == f"a one{END}a two{END}"


def test_shorter_samples_begin_with_later_questions_and_keep_the_system_turn() -> None:
    talk = [*TALK, *turns("q three", "a three")]
    made = maker("qwen2_5")
    (sample,) = made.samples(Talk.of(talk))
    found = list(made.shorter(sample))
    assert all(found)
    texts = [trained(one) for one in found if one]
    assert texts == [f"a two{END}a three{END}", f"a three{END}"]
    assert all("Be kind." in one.text and "q one" not in one.text for one in found if one)


def test_what_is_left_of_a_pair_ends_with_the_whole_continuation() -> None:
    talk = [*TALK, *turns("q three", "a three")]
    made = maker("qwen2_5")
    found = list(made.shorter(made.continuation(Talk.of(talk), 4)))
    assert [trained(one) for one in found if one] == [f"a two{END}a three{END}"]


def test_a_template_that_drops_a_call_or_an_answer_refuses_the_conversation() -> None:
    function = {"name": "f", "arguments": {"a": "b"}}
    call: Any = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": function}],
    }
    told = Turn(role="tool", content="c")
    with pytest.raises(TemplateRefused, match="template"):
        maker("llama3").samples(Talk.of([*turns("q"), call, told, *turns("x", first="assistant")]))


def test_a_layout_is_made_once_for_all_conversations_of_a_skeleton() -> None:
    made = maker("qwen2_5")
    layouts = [made.samples(Talk.of(turns(*words)))[0].layout for words in ("ab", "cd", "ef")]
    assert layouts[1] is layouts[2]
    other = made.samples(Talk.of([*turns("a"), Turn(role="assistant", content="b", learn=False)]))[
        0
    ]
    assert trained(other) == ""


POLICIES = [
    ChatPolicy(learn, reasoning, history)
    for learn, reasoning, history in product(
        get_args(Learn), get_args(Reasoning), get_args(History)
    )
]
FLAGS: list[list[dict[str, bool]]] = [
    [{}],
    [{"learn": False}, {"cut": True}],
    [{"cut": True}, {"learn": False, "cut": True}, {}],
]
"""Of each answer of a conversation."""
KINDS = [*product(FLAGS, ([], [SYSTEM]))]
THINKING = ("", THOUGHTS, "<think>\n", "<think>\nso\n</think>\n\n")
"""In front of an answer: reasoning, or the beginning of it."""


def plain_talk(chance: random.Random, kind: tuple[list[dict[str, bool]], list[Turn]]) -> list[Turn]:
    flags, found = kind[0], [*kind[1]]
    for more in flags:
        asked, answered = (chance.choice(("yes", "hello 世界", "a\nb")) for _ in range(2))
        (answer,) = turns(chance.choice(THINKING) + answered, first="assistant")
        found += [*turns(asked), {**answer, **more}]  # type: ignore[typeddict-item]
    return found


def seen(sample: Sample) -> Any:
    """All that a sample tells, its pieces by characters."""
    pieces: Any = sample.layout
    cut = zip(sample.texts, pieces, sample.trusted, strict=True)
    owned = [(c, piece.trusted, trust, piece.turn) for t, piece, trust in cut for c in t]
    return owned, sample.notes, [*sample.talk.turns], sample.wanted, sample.fixed


def every_sample(made: SampleMaker, talk: Talk) -> list[Any] | str:
    try:
        found = made.samples(talk)
        more = [made.whole(talk), made.continuation(talk, len(talk) - 1)]
        return [seen(one) for one in (*found, *more)]
    except TemplateRefused as refused:
        return refused.reason


@pytest.mark.parametrize("name", ORIGINAL)
def test_plain_conversations_have_the_samples_of_the_general_way(name: str) -> None:
    """The short way knows their shape by the kinds of their turns alone."""
    place, template = [*ORIGINAL].index(name), model(name)
    chance, form = random.Random(place), form_of(template.program)
    for policy in POLICIES[place % 12 :: 12]:
        short, general = (SampleMaker(template, form, policy, list) for _ in range(2))  # type: ignore[arg-type]
        for _ in range(2):
            talk = plain_talk(chance, KINDS[place % len(KINDS)])
            told = Talk.of(talk)
            other = Talk(told.contents, told.kinds, False, partial(_made, talk))
            assert every_sample(short, told) == every_sample(general, other), (policy, talk)


def _made(talk: list[Turn]) -> tuple[list[Turn], None]:
    return talk, None
