"""Preferences of the sample: some pairs teach nothing, some battles part."""

from sample_rows import rows


def test_ultrafeedback_has_pairs_that_teach_nothing() -> None:
    found = rows("ultrafeedback")
    assert any(row["chosen"] == row["rejected"] for row in found)
    assert any(row["score_chosen"] == row["score_rejected"] for row in found)
    assert any(row["rejected"][-1]["content"] == "" for row in found)
    assert any(row["rejected"][-1]["role"] == "user" for row in found)


def test_arena_has_ties_equal_answers_and_battles_that_part() -> None:
    found = rows("arena")
    assert {row["winner"] for row in found} == {"model_a", "model_b", "tie", "tie (bothbad)"}
    assert any(row["conversation_a"] == row["conversation_b"] for row in found)
    assert any(row["turn"] > 1 for row in found)
    assert any(row["conversation_a"][0]["role"] == "assistant" for row in found)
    assert any(row["openai_moderation"]["flagged"] for row in found)
