"""Conversations of the sample: plain ones, awkward ones, verdicts on them."""

from pipeline_lib.sampledata.exchanges import (
    awkward,
    exchange,
    foreign,
    messages,
    moderation,
    mostly_plain,
)
from pipeline_lib.sampledata.prose import Voice
from pipeline_lib.sampledata.words import FOREIGN, TOPICS


def test_a_plain_exchange_alternates_and_is_never_empty() -> None:
    voice = Voice(1, 1)
    for topic in TOPICS * 20:
        turns = exchange(voice, topic)
        assert [role for role, _ in turns] == ["user", "assistant"] * (len(turns) // 2)
        assert turns and all(content for _, content in turns)


def test_answers_about_programs_have_code() -> None:
    voice, topic = Voice(1, 2), next(topic for topic in TOPICS if topic.name == "programs")
    answers = [content for _ in range(50) for _, content in exchange(voice, topic)]
    assert any("```python\ndef " in (answer or "") for answer in answers)


def test_an_awkward_exchange_is_odd_in_many_ways() -> None:
    voice = Voice(1, 3)
    found = [awkward(voice, TOPICS[0]) for _ in range(300)]
    shapes = {tuple((role, bool(content)) for role, content in turns) for turns in found}
    assert () in shapes and len(shapes) > 10


def test_most_exchanges_are_plain() -> None:
    voice = Voice(1, 4)
    found = [mostly_plain(voice, TOPICS[0], 20) for _ in range(500)]
    odd = [turns for turns in found if len(turns) % 2 or not all(content for _, content in turns)]
    assert 0 < len(odd) < 50


def test_a_foreign_exchange_names_its_language() -> None:
    language, turns = foreign(Voice(1, 5))
    assert (language, turns[0][1], turns[1][1]) in FOREIGN


def test_turns_become_messages_and_messages_get_a_verdict() -> None:
    assert messages([("user", None)]) == [{"role": "user", "content": None}]
    flagged, fine = (moderation(("hate", "violence"), unsafe) for unsafe in (True, False))
    assert flagged["flagged"] and flagged["categories"] == {"hate": False, "violence": True}
    assert not fine["flagged"] and not any(fine["categories"].values())
