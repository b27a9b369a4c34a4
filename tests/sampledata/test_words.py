"""The words of the sample are read from their tables."""

from pipeline_lib.sampledata.words import FOREIGN, PEOPLE, TOPICS, words


def test_words_stand_between_commas() -> None:
    assert words("a, b c,d") == ("a", "b c", "d")
    assert len(PEOPLE) == len(set(PEOPLE)) == 13


def test_every_topic_has_its_words_and_every_question_its_answer() -> None:
    assert [len(TOPICS), len(FOREIGN)] == [8, 11]
    assert all(len(topic.things) > 6 and len(topic.qualities) == 6 for topic in TOPICS)
    assert all(question[-1] in "?？。؟" for _, question, _ in FOREIGN)
