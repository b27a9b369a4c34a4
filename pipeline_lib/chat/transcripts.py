"""Turns from plain text: lists of utterances, pre-tokenised lines, transcripts. Pure."""

import re
from collections.abc import Sequence

from pipeline_lib.chat.conversation import Turns
from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.turns import assistant, dialogue, user

_SPEAKER = re.compile(r"\n\n(Human|Assistant):")
_SPACED = (
    (re.compile(r"\s+"), " "),
    (re.compile(r" (?=[.,!?;:%)\]])"), ""),
    (re.compile(r"(?<=[(\[$£€]) "), ""),
    (re.compile(r"(?<=\w) ?['’] ?(?=(?:s|t|m|d|ll|re|ve|clock)\b)", re.IGNORECASE), "’"),
    (re.compile(r" (n’t)\b"), r"\1"),
)


def detokenised(text: str | None) -> str:
    """A line in normal spelling, from one with spaces between words and punctuation marks.

    Spaces before closing marks, after opening marks and around the apostrophe of a contraction are
    removed. A run of white space becomes one space, and the ends are stripped. The apostrophe of a
    contraction becomes the typographic one. None gives an empty line.
    """
    text = text or ""
    for pattern, written in _SPACED:
        text = pattern.sub(written, text)
    return text.strip()


def interleaved(
    asked: Sequence[str], answered: Sequence[str], *, before: Sequence[str] = ()
) -> Turns:
    """One conversation from the lists of its two speakers, after the utterances ``before``.

    The lists may differ in length by one, with a note: an extra question is the last turn, an extra
    answer is dropped. ``Reject`` for lists that differ by more.
    """
    if abs(len(asked) - len(answered)) > 1:
        raise Reject("lists of utterances differ in length")
    rounds = min(len(asked), len(answered))
    lines = [line for both in zip(asked, answered, strict=False) for line in both]
    talk = dialogue([*before, *lines, *asked[rounds:]])
    notes = ["lists of utterances differ in length"] * (len(asked) != len(answered))
    return Turns(talk, (*talk.notes, *notes))


def transcript(text: str) -> Turns:
    """Turns of a text in which ``Human:`` or ``Assistant:`` after a blank line starts each turn.

    Contents are stripped; blank ones stay, for ``tidy``. ``Reject`` if there is text before the
    first speaker.
    """
    head, *parts = _SPEAKER.split(f"\n\n{text.lstrip()}")
    if head or not parts:
        raise Reject("a transcript does not begin with a speaker")
    make = {"Human": user, "Assistant": assistant}
    spoken = zip(parts[::2], parts[1::2], strict=True)
    return Turns(make[speaker](content.strip()) for speaker, content in spoken)
