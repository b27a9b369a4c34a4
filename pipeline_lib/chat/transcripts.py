"""Turns from bare text: two lists of one talk, pre-tokenised lines, transcripts. Pure."""

import re
from collections.abc import Sequence

from pipeline_lib.chat.conversation import Reject, Turns
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
    """A line whose words and marks stand apart, as one would write it.

    Spaces in front of closing marks, behind opening ones and around the apostrophe of a
    contraction go, runs of white space become one space, and the ends are stripped. Single and
    typographic apostrophes of contractions become the typographic one.
    """
    text = text or ""
    for pattern, written in _SPACED:
        text = pattern.sub(written, text)
    return text.strip()


def interleaved(
    asked: Sequence[str], answered: Sequence[str], *, before: Sequence[str] = ()
) -> Turns:
    """One talk from the lists of its two speakers, behind the utterances of ``before``.

    The lists may differ in length by one: what has no counterpart stands last, as long as the
    sides still alternate. ``Reject`` for lists that differ by more.
    """
    if abs(len(asked) - len(answered)) > 1:
        raise Reject("lists of utterances differ in length")
    rounds = min(len(asked), len(answered))
    lines = [line for both in zip(asked, answered, strict=False) for line in both]
    talk = dialogue([*before, *lines, *asked[rounds:]])
    notes = ["lists of utterances differ in length"] * (len(asked) != len(answered))
    return Turns(talk, (*talk.notes, *notes))


def transcript(text: str) -> Turns:
    """Turns of a text in which ``Human:`` or ``Assistant:`` behind a blank line opens each.

    Contents are stripped; blank ones stay, for ``tidy``. ``Reject`` if something stands in front
    of the first mark.
    """
    head, *parts = _SPEAKER.split(f"\n\n{text.lstrip()}")
    if head or not parts:
        raise Reject("a transcript does not begin with a speaker")
    make = {"Human": user, "Assistant": assistant}
    spoken = zip(parts[::2], parts[1::2], strict=True)
    return Turns(make[speaker](content.strip()) for speaker, content in spoken)
