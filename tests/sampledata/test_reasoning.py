"""Reasoning of the sample: every form, hidden, unfinished, with licences."""

from sample_rows import rows


def test_openthoughts_has_every_form_of_reasoning() -> None:
    answers = [
        row["conversations"][-1]["value"]
        for row in rows("openthoughts")
        if len(row["conversations"]) > 1
    ]
    texts = [answer for answer in answers if answer]
    assert None in answers and "" in answers
    assert any("<think>" in text for text in texts)
    assert any("<|begin_of_thought|>" in t and "<|end_of_thought|>" not in t for t in texts)
    assert any("<|begin_of_thought|>\n\n\n\n<|end_of_thought|>" in text for text in texts)
    assert max(map(len, texts)) > 10_000
    assert any(len(row["conversations"]) == 1 for row in rows("openthoughts"))


def test_openr1_math_has_null_verdicts_and_attempts_without_an_end() -> None:
    found = rows("openr1_math")
    for column in ("correctness_math_verify", "correctness_llama", "finish_reasons"):
        assert {row[column] is None for row in found} == {True, False}
    assert any("</think>" not in attempt for row in found for attempt in row["generations"])
    assert any("<think>\n\n</think>" in row["messages"][-1]["content"] for row in found)


def test_general_thought_has_hidden_reasoning_history_and_licences() -> None:
    found = rows("general_thought")
    assert {row["model_reasoning"] for row in found} >= {None, "", " \n"}
    assert {len(row["prev_messages"] or ()) for row in found} == {0, 1, 2}
    assert {row["question_license"] for row in found} >= {"MIT", "CC-BY-NC-4.0", None}
    assert len({row["question_id"] for row in found}) < len(found)


def test_nemotron_has_empty_open_and_answerless_think_blocks() -> None:
    found = rows("nemotron")
    outputs = [row["output"] for row in found]
    assert any("<think>\n\n</think>" in text for text in outputs)
    assert any("<think>" in text and "</think>" not in text for text in outputs)
    assert any(text.endswith("</think>") for text in outputs)
    assert any([turn["role"] for turn in row["input"]] == ["system"] for row in found)
    assert any(len(row["input"]) > 2 for row in found) and any(not row["input"] for row in found)
