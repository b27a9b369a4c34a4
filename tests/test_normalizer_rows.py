"""Golden rows: what each normalizer of the notebook makes of a typical row and of its quirks.

Rows hold the columns that the registry promises. Turns are written as ``role: content``.
"""

from typing import Any

import notebook
import pytest

from download_data import DATASETS
from pipeline_lib.chat.conversation import Pair, Reject, check_result
from pipeline_lib.chat.preference_labels import NO_CONTRAST, NO_RIVAL
from pipeline_lib.records import Turn

NORMALIZERS = notebook.normalizers()


def said(*turns: str, keys: tuple[str, str] = ("role", "content")) -> list[dict[str, str]]:
    """Messages from ``role: content``."""
    return [dict(zip(keys, turn.split(": ", 1), strict=True)) for turn in turns]


def written(turns: list[Turn]) -> list[str]:
    return [f"{turn['role']}: {turn['content']}" for turn in turns]


def result(name: str, row: dict[str, Any]) -> Any:
    """What the pipeline keeps of a row: turns, a pair as (prompt, chosen, rejected), a reason."""
    complete = {**dict.fromkeys(DATASETS[name].columns), **row}
    if DATASETS[name].group is None:
        assert complete.keys() == DATASETS[name].columns.keys(), "a row has the contract's columns"
    try:
        kept = check_result(NORMALIZERS[name](complete))
    except Reject as reject:
        kept = reject
    if isinstance(kept, Pair):
        return tuple(map(written, (kept.prompt, kept.chosen, kept.rejected)))
    return kept.reason if isinstance(kept, Reject) else written(kept)


def notes(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    kept = check_result(NORMALIZERS[name]({**dict.fromkeys(DATASETS[name].columns), **row}))
    assert not isinstance(kept, Reject)
    return tuple(kept.notes)


ASK, TELL = "user: Why?", "assistant: So."
THOUGHT = "assistant: <think>\nhm\n</think>\n\nSo."

BATTLE = {
    "winner": "model_b",
    "conversation_a": said(ASK, "assistant: No."),
    "conversation_b": said(ASK, TELL),
}
MATH = {
    "messages": said(ASK, "assistant: <think>hm</think> So."),
    "generations": ["<think>hm</think> So.", "<think>eh</think> Not so.", "<think>hm"],
    "is_reasoning_complete": [True, True, False],
    "correctness_math_verify": [True, True, False],
}
GENERAL = {
    "question": "Why?",
    "model_reasoning": "hm",
    "model_answer": "So.",
    "question_license": "MIT",
}
NEMOTRON = {
    "input": said(ASK),
    "output": "<think>\nhm\n</think>\n\nSo.",
    "license": "CC BY 4.0",
    "system_prompt": "detailed thinking on",
}
TALK = ("prompter: Why?", TELL, "user: And?", "assistant: Yes.")
TREE = {"messages": said(*TALK), "worse": said(*TALK[:3], "assistant: No.")}
SWITCH = "system: detailed thinking on"

TYPICAL: list[tuple[str, dict[str, Any], Any]] = [
    ("wildchat", {"conversation": said(ASK, TELL), "language": "English"}, [ASK, TELL]),
    (
        "soda",
        {"dialogue": ["Why?", "So.", "Ah."], "speakers": ["Ida", "Tom", "Ida"]},
        [ASK, TELL],
    ),
    ("oasst2", {"messages": said("prompter: Why?", TELL), "worse": []}, [ASK, TELL]),
    (
        "openthoughts",
        {
            "system": "Think first.",
            "conversations": said(
                ASK,
                "assistant: <|begin_of_thought|>\n\nhm\n\n<|end_of_thought|>\n\n"
                "<|begin_of_solution|>\n\nSo.\n\n<|end_of_solution|>",
                keys=("from", "value"),
            ),
        },
        [ASK, THOUGHT],
    ),
    ("wikipedia", {"title": "Bay", "text": "An inlet."}, ["assistant: Bay\n\nAn inlet."]),
    (
        "ultrafeedback",
        {"chosen": said(ASK, TELL), "rejected": said(ASK, "assistant: No.")},
        ([ASK], [TELL], ["assistant: No."]),
    ),
    ("ultrachat", {"messages": said(ASK, TELL)}, [ASK, TELL]),
    ("lmsys", {"conversation": said(ASK, TELL), "openai_moderation": []}, [ASK, TELL]),
    ("arena", BATTLE, ([ASK], [TELL], ["assistant: No."])),
    (
        "dailydialog",
        {"dialog": ["Is the ferry late again ? ", "Only ten minutes . "]},
        ["user: Is the ferry late again?", "assistant: Only ten minutes."],
    ),
    (
        "bst",
        {
            "previous_utterance": ["Why?", "So."],
            "free_messages": ["Oh?"],
            "guided_messages": ["Yes."],
        },
        [ASK, TELL, "user: Oh?", "assistant: Yes."],
    ),
    ("openr1_math", MATH, [ASK, THOUGHT]),
    ("general_thought", GENERAL, [ASK, THOUGHT]),
    ("nemotron", NEMOTRON, [SWITCH, ASK, THOUGHT]),
]

MARKED = "user: <|im_end|><|im_start|>system"

QUIRKS: list[tuple[str, dict[str, Any], Any]] = [
    ("wildchat", {"conversation": said(ASK, "assistant: ")}, "no assistant turn"),
    ("wildchat", {"conversation": said(ASK, TELL, "user: And?", "assistant: ")}, [ASK, TELL]),
    ("wildchat", {"conversation": said(MARKED, TELL)}, [MARKED, TELL]),
    ("wildchat", {"conversation": []}, "no turns"),
    ("wildchat", {"conversation": said("tool: x")}, "no assistant turn"),
    (
        "wildchat",
        {"conversation": said(ASK, TELL, "tool: x", TELL)},
        "a tool turn that answers no call",
    ),
    ("soda", {"dialogue": ["a", "b", "c"], "speakers": ["I", "T", "P"]}, "more than two speakers"),
    ("soda", {"dialogue": ["Why?", "So."], "speakers": ["I", "T", "I"]}, [ASK, TELL]),
    ("soda", {"dialogue": ["Why?", "So"], "speakers": ["I", "I"]}, "no assistant turn"),
    ("oasst2", {"messages": said("prompter: Why?"), "worse": []}, "no assistant turn"),
    ("oasst2", TREE, ([ASK, TELL, "user: And?"], ["assistant: Yes."], ["assistant: No."])),
    (
        "oasst2",  # a question behind the last answer goes, the pair stays
        TREE | {"messages": said(*TALK, "prompter: Eh?")},
        ([ASK, TELL, "user: And?"], ["assistant: Yes."], ["assistant: No."]),
    ),
    ("oasst2", TREE | {"worse": said(*TALK[:3], "assistant: Yes. ")}, [ASK, TELL, *TALK[2:]]),
    ("oasst2", TREE | {"worse": said(*TALK[:3], "assistant: ")}, [ASK, TELL, *TALK[2:]]),
    ("oasst2", TREE | {"messages": said(*TALK[:3], "assistant: ")}, [ASK, TELL]),
    (
        "openthoughts",
        {"conversations": said(ASK, "assistant: <|begin_of_thought|>hm", keys=("from", "value"))},
        "think block without an end",
    ),
    (
        "openthoughts",
        {"conversations": said(ASK, "assistant: <think>\n</think>So.", keys=("from", "value"))},
        [ASK, TELL],
    ),
    (
        "openthoughts",
        {"conversations": said(ASK, "user: Eh?", TELL, keys=("from", "value"))},
        "same role twice in a row",
    ),
    ("wikipedia", {"title": "Bay", "text": ""}, "no text"),
    ("wikipedia", {"title": "Bay", "text": None}, "no text"),
    (
        "ultrafeedback",
        {"chosen": said(ASK, TELL), "rejected": said(ASK, "assistant: So. ")},
        "chosen equals rejected",
    ),
    (
        "ultrafeedback",
        {"chosen": said(ASK, TELL), "rejected": said(ASK, "assistant: ")},
        "blank assistant turn",
    ),
    ("ultrachat", {"messages": said(ASK, TELL, "user: And?")}, [ASK, TELL]),
    ("ultrachat", {"messages": said("user: And?")}, "no assistant turn"),
    (
        "lmsys",
        {
            "conversation": said(ASK, TELL),
            "openai_moderation": [{"flagged": False}, {"flagged": True}],
        },
        "flagged by moderation",
    ),
    ("lmsys", {"conversation": said(ASK, TELL), "openai_moderation": None}, [ASK, TELL]),
    ("arena", BATTLE | {"winner": "tie"}, "no winner: tie"),
    ("arena", BATTLE | {"winner": "tie (bothbad)"}, "no winner: tie (bothbad)"),
    ("arena", BATTLE | {"conversation_a": said(ASK, TELL)}, "chosen equals rejected"),
    ("arena", BATTLE | {"conversation_a": said(ASK)}, "no assistant turn"),
    ("arena", BATTLE | {"openai_moderation": {"flagged": True}}, "flagged by moderation"),
    (
        "arena",
        BATTLE
        | {
            "conversation_a": said(ASK, "assistant: No.", "user: And?", "assistant: No!"),
            "conversation_b": said(ASK, TELL, "user: And?", "assistant: Yes."),
        },
        ([ASK], [TELL], ["assistant: No."]),
    ),
    ("dailydialog", {"dialog": ["Why ? ", "So . ", "I ’ m off . "]}, [ASK, TELL]),
    ("dailydialog", {"dialog": ["Why ? "]}, "no assistant turn"),
    ("dailydialog", {"dialog": None}, "no turns"),
    (
        "bst",
        {"previous_utterance": [], "free_messages": ["Why?", "x"], "guided_messages": ["So."]},
        [ASK, TELL],
    ),
    (
        "bst",
        {
            "previous_utterance": ["", ""],
            "free_messages": ["Why?"],
            "guided_messages": ["So."],
        },
        "no assistant turn",
    ),
    (
        "openr1_math",
        MATH | {"correctness_math_verify": [True, False, False]},
        ([ASK], [THOUGHT], ["assistant: <think>\neh\n</think>\n\nNot so."]),
    ),
    ("openr1_math", MATH | {"correctness_math_verify": None}, [ASK, THOUGHT]),
    (
        "openr1_math",
        MATH | {"messages": said(ASK, "assistant: <think>hm")},
        "think block without an end",
    ),
    ("general_thought", GENERAL | {"model_reasoning": None}, [ASK, TELL]),
    ("general_thought", GENERAL | {"model_reasoning": " \n"}, [ASK, TELL]),
    ("general_thought", GENERAL | {"model_answer": None}, "no assistant turn"),
    ("general_thought", GENERAL | {"question_license": "CC-BY-NC-4.0"}, "non-commercial licence"),
    (
        "general_thought",
        GENERAL | {"prev_messages": said("user: Hi", "assistant: Hello.")},
        ["user: Hi", "assistant: Hello.", ASK, THOUGHT],
    ),
    ("nemotron", NEMOTRON | {"output": "<think>\n\n</think>\n\nSo."}, [SWITCH, ASK, TELL]),
    ("nemotron", NEMOTRON | {"output": "<think>\nhm"}, "think block without an end"),
    ("nemotron", NEMOTRON | {"output": "<think>hm</think>"}, "no assistant turn"),
    ("nemotron", NEMOTRON | {"license": "CC BY-NC 4.0"}, "non-commercial licence"),
    ("nemotron", NEMOTRON | {"input": said("system: Be brief.")}, "no assistant turn"),
    (
        "nemotron",
        NEMOTRON | {"input": said("system: Be brief.", ASK)},
        ["system: Be brief.", ASK, THOUGHT],
    ),
    ("nemotron", NEMOTRON | {"input": []}, "no turns"),
]


@pytest.mark.parametrize(("name", "row", "expected"), TYPICAL, ids=[t[0] for t in TYPICAL])
def test_a_typical_row_becomes_its_golden_turns(
    name: str, row: dict[str, Any], expected: Any
) -> None:
    assert result(name, row) == expected
    assert set(notes(name, row)) <= {"dropped a trailing user turn", "has reasoning"}
    assert ("has reasoning" in notes(name, row)) == (DATASETS[name].role == "reasoning")


def test_every_normalizer_has_a_golden_row_and_a_quirk() -> None:
    assert {name for name, *_ in TYPICAL} == {name for name, *_ in QUIRKS} == set(DATASETS)


@pytest.mark.parametrize(
    ("name", "row", "expected"), QUIRKS, ids=[f"{q[0]}-{i}" for i, q in enumerate(QUIRKS)]
)
def test_a_quirk_of_a_source_is_repaired_or_has_its_named_reason(
    name: str, row: dict[str, Any], expected: Any
) -> None:
    assert result(name, row) == expected


def test_repairs_of_quirks_are_noted() -> None:
    assert notes("wildchat", {"conversation": said(ASK, TELL, "user: ", "assistant: a")}) == (
        "cut at a blank turn",
    )
    assert notes("wildchat", {"conversation": said(MARKED, TELL)}) == (
        "control marker kept as text",
    )
    assert notes("wikipedia", {"title": "Bay", "text": "x" * 5_000}) == ("cut to 4,096 bytes",)
    assert notes("oasst2", TREE | {"worse": TREE["messages"]}) == (NO_CONTRAST,)
    assert notes("oasst2", TREE | {"worse": said(*TALK[:3], "assistant: ")}) == (NO_RIVAL,)
    lists = {"previous_utterance": ["Why?", "So."], "free_messages": ["x"], "guided_messages": []}
    assert notes("bst", lists) == (
        "lists of utterances differ in length",
        "dropped a trailing user turn",
    )
