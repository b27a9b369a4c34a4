"""Dialogues of the offline sample. About one row in twenty has an oddity of its data set.

Such oddities are missing or empty contents, two turns of one side, a last turn of the user, control
markers typed by a user, and lists that do not match.
"""

import datetime as dt
import re
from collections.abc import Iterator

from pipeline_lib.records import DataRow
from pipeline_lib.sampledata.exchanges import (
    Exchange,
    foreign,
    messages,
    moderation,
    mostly_plain,
)
from pipeline_lib.sampledata.prose import Voice
from pipeline_lib.sampledata.schemas import SLASHED, TOXICITIES, UNDERSCORED
from pipeline_lib.sampledata.words import PEOPLE

MODELS = ("vicuna-13b", "koala-13b", "alpaca-13b", "gpt-4", "claude-1")
_GPTS = ("gpt-3.5-turbo-0613", "gpt-4-0314", "gpt-4-1106-preview")
_EPOCH = dt.datetime(2023, 4, 9, tzinfo=dt.UTC)
_HEADER = {"accept-language": "en-GB,en;q=0.9", "user-agent": "Mozilla/5.0"}
_IMAGES = "Write a prompt for an image generator about {}, one line, very detailed."
_REPLIES = ("That's nice, I'd say.", "You're right; it doesn't matter.", "I've heard that, too!")
_PERSONAS = ("I keep bees.", "I hate mornings.", "I paint boats.", "I have a twin.", "I bake rye.")
_SCENES = ("empathetic_dialogues", "convai2", "wizard_of_wikipedia")
_SPLIT_MARKS = re.compile(r"\s*([.,!?;:’])\s*")


def wildchat(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Open conversations with a model, many languages."""
    for number in range(rows):
        topic, language = voice.topic(), "English"
        turns = mostly_plain(voice, topic, 16)
        if voice.one_in(8):
            language, turns = foreign(voice)
        elif voice.one_in(30):
            turns = [("user", _IMAGES.format(topic.name)), ("assistant", voice.sentence(topic))]
        yield _wildchat_row(voice, number, language, turns)


def _wildchat_row(voice: Voice, number: int, language: str, turns: Exchange) -> DataRow:
    when = _EPOCH + dt.timedelta(minutes=7 * number)
    redacted = voice.one_in(40)
    sender = {
        "country": voice.pick(("Norway", "Brazil", "Japan")),
        "state": voice.pick(("Oslo", None)),
        "hashed_ip": voice.hexes(16),
        "header": _HEADER,
    }
    conversation = [
        message
        | {"language": language, "redacted": redacted, "toxic": False}
        | {"turn_identifier": 100_000 + number * 10 + place // 2}
        | (sender if message["role"] == "user" else {})
        | {"timestamp": when if message["role"] == "assistant" else None}
        for place, message in enumerate(messages(turns))
    ]
    return {
        "conversation_hash": voice.hexes(32),
        "model": voice.pick(_GPTS),
        "timestamp": when,
        "conversation": conversation,
        "turn": (len(turns) + 1) // 2,
        "language": language,
        "openai_moderation": [moderation(UNDERSCORED, False) for _ in turns],
        "detoxify_moderation": [dict.fromkeys(TOXICITIES, 0.0002) for _ in turns],
        "toxic": False,
        "redacted": redacted,
        **sender,
    }


def soda(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Dialogues by named speakers; roles follow from who speaks first."""
    for number in range(rows):
        topic = voice.topic()
        first, second = voice.pick(PEOPLE), voice.pick(("Friend", "Neighbour", "Teacher"))
        lines = [
            voice.question(topic) if place % 2 == 0 else voice.sentence(topic)
            for place in range(voice.between(3, 9))
        ]
        speakers = [(first, second)[place % 2] for place in range(len(lines))]
        odd: tuple[tuple[list[str], list[str]], ...] = (
            (lines, speakers[:-1]),
            (lines[:-1], speakers),
            (lines, [speakers[0], *speakers[:-1]]),
            (lines, [*speakers[:-1], "A passer-by"]),
            ([*lines[:-1], ""], speakers),
            (lines[:1], speakers[:1]),
            ([], []),
        )
        lines, speakers = voice.rarely(16, odd, (lines, speakers))
        plan = f"{first} wants to know about {topic.name}"
        yield {
            "head": "PersonX asks a question",
            "relation": voice.pick(("xWant", "xIntent", "xNeed")),
            "tail": f"to know about {topic.name}",
            "literal": f"{plan}.",
            "narrative": f"{plan}, so {first} talks with a {second.lower()}.",
            "dialogue": lines,
            "speakers": speakers,
            "PersonX": first,
            "PersonY": voice.pick((second, "")),
            "PersonZ": "",
            "original_index": number,
            "split": "train",
            "head_answer": "",
            "pmi_head_answer": "",
            "relation_tail": "",
            "pmi_relation_tail": "",
        }


def ultrachat(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Conversations between two models; the prompt column repeats the first message."""
    for _ in range(rows):
        turns = mostly_plain(voice, voice.topic(), 24)
        yield {
            "prompt": turns[0][1] if turns else "",
            "prompt_id": voice.hexes(64),
            "messages": messages(turns),
        }


def lmsys(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Open conversations with many models; some messages are flagged, some names replaced."""
    for _ in range(rows):
        topic, language = voice.topic(), voice.pick(("English",) * 9 + ("unknown",))
        turns = mostly_plain(voice, topic, 24)
        if voice.one_in(10):
            language, turns = foreign(voice)
        redacted, unsafe = voice.one_in(20), voice.one_in(40)
        if redacted:
            turns = [("user", "Write to NAME_1 and NAME_2."), ("assistant", "Dear NAME_1, hello.")]
        verdicts = [moderation(SLASHED, unsafe and place == 0) for place in range(len(turns))]
        yield {
            "conversation_id": voice.hexes(32),
            "model": voice.pick(MODELS),
            "conversation": messages(turns),
            "turn": (len(turns) + 1) // 2,
            "language": language,
            "openai_moderation": None if voice.one_in(50) else verdicts,
            "redacted": redacted,
        }


def dailydialog(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Small talk of two people, cut into words and marks by spaces."""
    for _ in range(rows):
        topic = voice.topic()
        lines = [
            voice.question(topic) if place % 2 == 0 else f"{voice.pick(_REPLIES)} {part}"
            for place, part in enumerate(voice.sentence(topic) for _ in range(voice.between(2, 9)))
        ]
        lines = voice.rarely(40, (lines[:1], [*lines[:1], "  ", *lines[1:]], []), lines)
        yield {
            "dialog": [spaced(line) for line in lines],
            "act": [1 + place % 4 for place in range(len(lines))],
            "emotion": [voice.between(0, 6) for _ in lines],
        }


def spaced(text: str) -> str:
    """The text as an old tokenizer left it: marks on their own, a space at the end."""
    return _SPLIT_MARKS.sub(r" \1 ", text.replace("'", "’")).rstrip() + " "


def bst(voice: Voice, rows: int) -> Iterator[DataRow]:
    """Talk of two people in two lists, after a first exchange; the lists may differ by one."""
    for _ in range(rows):
        topic = voice.topic()
        rounds = voice.between(3, 6)
        free = [voice.question(topic) for _ in range(rounds)]
        guided = [voice.sentence(topic) for _ in range(rounds)]
        free, guided = voice.rarely(12, ((free, guided[:-1]), (free[:-1], guided)), (free, guided))
        opening = [voice.question(topic), voice.sentence(topic)]
        opening = voice.rarely(60, ([], ["", ""], opening[:1]), opening)
        yield {
            "personas": [voice.pick(_PERSONAS) for _ in range(4)],
            "additional_context": voice.pick(("", topic.name)),
            "previous_utterance": opening,
            "context": voice.pick(_SCENES),
            "free_messages": free,
            "guided_messages": guided,
            "suggestions": {
                name: [voice.sentence(topic) for _ in guided] for name in sorted(_SCENES)
            },
            "guided_chosen_suggestions": [voice.pick(("", "convai2")) for _ in guided],
            "label_candidates": [],
        }
