"""Turns from bare text: what is joined, how it is spelled, and where it can not be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.chat.conversation import Reject
from pipeline_lib.chat.transcripts import detokenised, interleaved, transcript
from pipeline_lib.chat.turns import assistant, user


@pytest.mark.parametrize(
    ("spaced", "written"),
    [
        ("Is the ferry late again ? ", "Is the ferry late again?"),
        ("I don ’ t know , Tom ; we ' ll see .", "I don’t know, Tom; we’ll see."),
        ("I did n’t , that ’ s all !", "I didn’t, that’s all!"),
        ("It costs $ 5 ( or 3 % more ) .", "It costs $5 (or 3% more)."),
        ("Well . . . it ’s five o ’ clock", "Well... it’s five o’clock"),
        ("  two   spaces\n", "two spaces"),
        ("the dogs ' bowls", "the dogs ' bowls"),
        ("", ""),
        (None, ""),
    ],
)
def test_words_and_marks_that_stand_apart_are_put_together(
    spaced: str | None, written: str
) -> None:
    assert detokenised(spaced) == written


@given(st.text("ab ,.’'(s", max_size=20))
def test_putting_together_takes_only_spaces_and_settles(text: str) -> None:
    once = detokenised(text)
    assert once.replace(" ", "").replace("'", "’") == text.replace(" ", "").replace("'", "’")


def test_two_lists_of_one_talk_are_read_in_turn_behind_the_opening() -> None:
    talk = interleaved(["f1", "f2"], ["g1", "g2"], before=["p1", "p2"])
    expected = [user("p1"), assistant("p2"), user("f1"), assistant("g1")]
    assert talk == [*expected, user("f2"), assistant("g2")]
    assert talk.notes == ()


def test_lists_that_differ_by_one_keep_what_still_alternates_and_leave_a_note() -> None:
    longer = interleaved(["f1", "f2"], ["g1"])
    assert longer == [user("f1"), assistant("g1"), user("f2")]
    shorter = interleaved(["f1"], ["g1", "g2"])
    assert shorter == [user("f1"), assistant("g1")]
    assert longer.notes == shorter.notes == ("lists of utterances differ in length",)
    with pytest.raises(Reject, match="differ in length"):
        interleaved(["f1"], ["g1", "g2", "g3"])


def test_a_transcript_is_split_at_its_speakers() -> None:
    text = "\n\nHuman: Is glue edible?\n\nIs it?\n\nAssistant: No.\n\nHuman: Ah\n\nAssistant:"
    expected = [user("Is glue edible?\n\nIs it?"), assistant("No."), user("Ah"), assistant("")]
    assert transcript(text) == expected
    assert transcript(text.lstrip()) == expected


def test_one_side_may_speak_twice_and_names_within_a_line_are_text() -> None:
    assert transcript("\n\nHuman: a\n\nHuman: b, Assistant: c") == [
        user("a"),
        user("b, Assistant: c"),
    ]


@pytest.mark.parametrize("text", ["", "Hello.\n\nHuman: a", "Human says"])
def test_a_transcript_without_a_first_speaker_is_rejected(text: str) -> None:
    with pytest.raises(Reject, match="does not begin with a speaker"):
        transcript(text)
