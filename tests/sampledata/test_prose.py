"""Invented prose is varied, and the same for ever."""

import pytest
from sample_rows import rows

from pipeline_lib.sampledata.prose import Voice, stream_of
from pipeline_lib.sampledata.words import TOPICS


def test_text_is_varied() -> None:
    articles = [row["text"] for row in rows("wikipedia")]
    assert len(set(articles)) > 0.9 * len(articles)
    words = {word for text in articles for word in text.split()}
    assert len(words) > 500
    everything = "".join(str(row) for row in rows("wildchat"))
    assert all(letter in everything for letter in ("é", "Ł", "今", "駅", "ا", "🙂"))


def test_the_same_seed_and_stream_say_the_same() -> None:
    def told(seed: int, stream: int) -> str:
        voice = Voice(seed, stream)
        return voice.article(voice.topic(), "Title")

    assert told(1, 2) == told(1, 2)
    assert len({told(1, 2), told(1, 3), told(2, 2)}) == 3


def test_every_data_set_has_a_stream_of_its_own() -> None:
    assert stream_of("soda") == stream_of("soda") != stream_of("bst")


def test_an_odd_item_is_picked_about_once_in_n() -> None:
    voice = Voice(3, 4)
    picked = [voice.rarely(10, "abc", "-") for _ in range(3_000)]
    assert set(picked) == {*"abc-"}
    assert 2_600 < picked.count("-") < 2_800


def test_a_sum_in_words_adds_up() -> None:
    for stream in range(20):
        problem, way, answer = Voice(5, stream).sum_in_words()
        assert way.endswith(f"= {answer}.") and "How many" in problem


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_every_pattern_is_filled(topic: object) -> None:
    voice = Voice(6, 7)
    said = [voice.sentence(topic) + voice.question(topic) for _ in range(200)]  # type: ignore[arg-type]
    assert not any("{" in text or "}" in text for text in said)
